"""Does a certificate hold? Every vector that comes before its answer has been dealt with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from hetsim.verifying.bounds import bounds_of, ways_of
from hetsim.verifying.node import Broken, Node, read
from hetsim.verifying.placements import Placements
from hetsim.verifying.question import UNITS, WORDS, Array, Question, question_of
from hetsim.verifying.runs import Run, counts_of, run_of, shape_of
from hetsim.verifying.templates import templates_of

FORMAT = "hetsim-certificate/1"
BLOCK = 1 << 16
MOST_VECTORS = 1 << 25
MOST_WAYS = 100_000
BUDGET = 100_000_000
"""Task events that are played at most, unless more are allowed."""


@dataclass(frozen=True, slots=True)
class Held:
    """What was checked."""

    vectors: int
    before: int
    excluded: int
    bounds: int
    tried: int
    runs: int
    undecided: int
    answer: str
    claim: str
    checked: tuple[str, ...]
    trusted: tuple[str, ...]

    def report(self) -> str:
        """Return all lines: what holds, of which question, and what nobody checked."""
        rows = [str(self)]
        for title, lines in (("verified", self.checked), ("on trust", self.trusted)):
            rows += [f"{title}  {line}" for line in lines]
        return "\n".join(rows)

    def __str__(self) -> str:
        return (
            f"certificate holds: {self.vectors:,} vectors, {self.before:,} come before "
            f"{self.claim}: {self.excluded:,} excluded by {self.bounds} bounds, {self.tried:,} "
            f"tried in {self.runs:,} runs, {self.undecided:,} undecided; answer: {self.answer}"
        )


def verify(path: str | os.PathLike[str], *, budget: int = BUDGET) -> Held:
    """Check a certificate.

    `budget` is how many task events are played at most.

    Raises
    ------
    Broken
        It is no certificate, or its runs would take more than the budget.
    Untrue
        It claims what is not so.
    OSError
        The file cannot be read.
    """
    root = read(os.fspath(path)).fields(
        "certificate made_of question arrivals ways bounds templates runs tried "
        "undecided answer runner_up"
    )
    root["certificate"].text(FORMAT)
    _digests(root["made_of"])
    question = question_of(root)
    ways = ways_of(root, question)
    bounds = bounds_of(root, question, ways)
    templates = templates_of(root, question, ways)
    _fits(root, [len(template.tasks) for template in templates], len(ways), budget)
    runs = [run_of(one, question, ways, bounds, templates) for one in root["runs"].rows()]
    verdicts = {run.verdict: run.error for run in runs}
    errors = sum(verdicts.values()) + sum(bound.error for bound in bounds)
    if errors > question.error * (1 + 1e-9):
        root["question"]["error"].untrue(f"verdicts may be wrong by {errors:.6g} together")
    placements = Placements(question, bounds, ways, budget)
    tried = _tried(root["tried"], question, runs, placements)
    undecided = {counts_of(one, question) for one in root["undecided"].rows()}
    if both := tried & undecided:
        root["undecided"].untrue(f"{list(min(both))} was tried")
    answer = _meets(root["answer"], question, runs)
    second = None
    if root["runner_up"].value != "unknown":
        second = _meets(root["runner_up"], question, runs)
        if second and not answer:
            root["runner_up"].untrue("a runner-up of no answer")
    for name, one in (("answer", answer), ("runner_up", second)):
        if one and any(bound.excludes(np.array([one]))[0] for bound in bounds):
            root[name].untrue("a bound excludes what meets")
        if one and one in tried | undecided:
            root[name].untrue("tried or undecided, and meets")
    known = tried | undecided | ({answer} if answer else set())
    last = answer if root["runner_up"].value == "unknown" else second
    if answer and last and _order(question, last) < _order(question, answer):
        root["runner_up"].untrue("comes before the answer")
    claim = "the runner-up" if last != answer and last else "the answer"
    if not last:
        claim = "the end of all"
    vectors, before, excluded, needed = 0, 0, 0, set()
    for counts in allowed(question):
        vectors += len(counts)
        counts = counts[_earlier(question, counts, last)]
        before += len(counts)
        out = np.zeros(len(counts), bool)
        for bound in bounds:
            out |= bound.excludes(counts)
        excluded += int(np.count_nonzero(out))
        for row in counts[~out].tolist():
            if tuple(row) not in known:
                root["tried"].untrue(
                    f"nothing is said of {row}, which costs {question.cost(row)} and comes before"
                )
            needed.add(tuple(row))
    needed.discard(answer or ())
    return Held(
        vectors, before, excluded, len(bounds), len(needed & tried),
        len(runs), len(undecided), question.told(answer) if answer else "none meets", claim,
        tuple(_checked(root, question)), tuple(_trusted(root, question, len(ways), len(templates))),
    )  # fmt: skip


def _checked(root: Node, question: Question) -> Iterator[str]:
    """Say of which question it holds: streams with their models, rates and objectives, policies."""
    asked = root["question"]
    models = [one["name"].value for one in asked["models"].rows()]
    for at, (node, stream) in enumerate(
        zip(asked["streams"].rows(), question.streams, strict=True)
    ):
        own = question.asks_of(at)
        count, per_s = (sum(question.came[k][place] for k in own) for place in (0, 1))
        rate = f"{count:,} requests that are given"
        if question.sampled:
            rate = f"{question.rate_of(at):.6g} requests a second"
            rate += f", {per_s:.6g} among {count:,} arrivals" if len(question.time) else ""
        slos = " and ".join(
            f"{100 * share:.10g} % within {1000 * limit:.10g} ms" for share, limit in stream.slos
        )
        name, model = node["name"].value, models[stream.model]
        yield f"stream {name}: {model}, {rate}, {slos or 'no objective'}"
    names = [one["name"].value for one in asked["policies"].rows()]
    yield f"policies played: {'; '.join(names)}"
    if question.sampled:
        yield f"verdicts may be wrong by {question.error:.6g} together"


def _trusted(root: Node, question: Question, ways: int, templates: int) -> Iterator[str]:
    """Say what no figure of the certificate is compared with."""
    yield f"seconds of devices and links: {ways:,} ways to serve a batch, {templates:,} templates"
    prices = [f"{one.name} {one.cost / UNITS[question.objective]:.10g}" for one in question.kinds]
    if question.objective != "devices":
        yield f"prices ({WORDS[question.objective]}): {', '.join(prices)}"
    yield "which kinds there are and how many, what hosts hold, what devices cannot run or hold"
    yield "where policies other than 'each' and 'all' place models"
    if not question.sampled:
        yield "that the arrivals are those of the workload"
    elif not len(question.time):
        yield "rates: there are no arrivals to compare them with"
    else:
        yield "the seed and length of the drawn arrivals, and rates within: " + ", ".join(
            f"{100 * off / rate:.2g} %"
            for rate, (_, _, off) in zip(question.rates, question.came, strict=True)
        )
    files = len(root["made_of"]["files"].entries())
    yield f"names and objectives are as the certificate says; its {files} digests were not compared"


def allowed(question: Question) -> Iterator[Array]:
    """Yield the vectors that could be had, each once: kind after kind, as far as devices allow."""
    kinds = question.kinds
    each = np.array([kind.counts for kind in kinds])
    parts, made = [np.zeros((1, 0), np.int64)], 0
    while parts:
        rows = parts.pop()
        done = rows.shape[1]
        if done == len(kinds):
            for of, least, most in question.limits:
                there = rows @ np.array(of)
                rows = rows[(least <= there) & (there <= most)]
            yield rows
            continue
        new = np.arange(kinds[done].most + 1)
        rows = np.column_stack([np.repeat(rows, len(new), axis=0), np.tile(new, len(rows))])
        rows = rows[rows @ each[: done + 1] <= question.max_devices]
        made += len(rows)
        if made > MOST_VECTORS:
            raise Broken(f"/question/kinds: more than {MOST_VECTORS} vectors")
        following = kinds[done + 1].most + 1 if done + 1 < len(kinds) else 1
        parts += np.array_split(rows, len(rows) * following // BLOCK + 1)


def _order(question: Question, counts: Sequence[int]) -> tuple[int, int, tuple[int, ...]]:
    many = sum(kind.counts * n for kind, n in zip(question.kinds, counts, strict=True))
    return question.cost(list(counts)), many, tuple(counts)


def _earlier(question: Question, counts: Array, last: Sequence[int] | None) -> Array:
    """Return which vectors come before the last; all where there is none."""
    if last is None:
        return np.ones(len(counts), bool)
    cost, many, _ = _order(question, last)
    costs = counts @ np.array([kind.cost for kind in question.kinds])
    devices = counts @ np.array([kind.counts for kind in question.kinds])
    apart = counts != np.array(last)
    first = np.argmax(apart, axis=1)
    rows = np.arange(len(counts))
    lower = apart.any(axis=1) & (counts[rows, first] < np.array(last)[first])
    same = (costs == cost) & (devices == many)
    found: Array = (costs < cost) | ((costs == cost) & (devices < many)) | (same & lower)
    return found


def _digests(node: Node) -> None:
    node.fields("hetsim files")["hetsim"].text()
    for digest in node["files"].entries():
        if len(digest.text()) != 64 or set(digest.value) - set("0123456789abcdef"):
            digest.broken("no sha256 in hex")


def _fits(root: Node, tasks: Sequence[int], ways: int, budget: int) -> None:
    """Check that what is to be played is within the budget: the longest template each request."""
    total, most = 0, max(tasks, default=1)
    for run in root["runs"].rows():
        if isinstance(run.value, dict) and "played" in run and "instances" in run:
            named = _leaves(run["instances"].value)
            # Each request may be looked for a place for among all instances.
            total += run["played"].whole(1) * (most + named // 64) + named * most
        elif isinstance(run.value, dict) and "bound" in run:
            total += _leaves(run["places"].value) * (1 + ways // 16) if "places" in run else 0
    if total > budget:
        raise Broken(f"/runs: up to {total:,} task events are to be played; allow them (--events)")


def _leaves(value: Any) -> int:
    """Return how many things are named, so that what is short and means much is met in time."""
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(_leaves, value)) if isinstance(value, list) else 1


def _tried(
    node: Node, question: Question, runs: Sequence[Run], placements: Placements
) -> set[tuple[int, ...]]:
    """Return the vectors of which every policy was played and misses."""
    found = set()
    for one in node.rows():
        counts = counts_of(one.fields("counts runs")["counts"], question)
        own = [(at, runs[at.place(runs)]) for at in one["runs"].rows()]
        for at, run in own:
            if run.counts != counts:
                at.untrue(f"a run of {list(run.counts)}")
            if run.answer not in ("misses", "none", "excluded"):
                at.untrue(f"a run that is {run.answer}")
        all_runs = [run for _, run in own]
        for policy, by in enumerate(question.policies):
            mine = [run for run in all_runs if run.policy == policy]
            if by.placement != "each":
                if not mine:
                    one["runs"].untrue(f"policy {policy} was not tried")
            elif not any(run.answer == "none" and not run.lost for run in mine):
                unseen = placements.unseen(counts, policy, all_runs)
                if unseen:
                    one["runs"].untrue(f"policy {policy} was not tried with {unseen}")
        found.add(counts)
    return found


def _meets(node: Node, question: Question, runs: Sequence[Run]) -> tuple[int, ...] | None:
    """Return the vector of an answer, which was played and meets."""
    if node.value is None:
        return None
    without = " without" * bool(question.losses)
    counts = counts_of(node.fields("counts cost run" + without)["counts"], question)
    if node["cost"].whole() != question.cost(list(counts)):
        node["cost"].untrue(f"its kinds cost {question.cost(list(counts))}")
    run = runs[node["run"].place(runs)]
    if run.counts != counts or run.answer != "meets":
        node["run"].untrue(f"a run of {list(run.counts)} that is {run.answer}")
    if question.losses:
        _survives(node, question, runs, run)
    return counts


def _survives(node: Node, question: Question, runs: Sequence[Run], intact: Run) -> None:
    """Check that what meets does so without any devices that may be lost."""
    if intact.lost:
        node["run"].untrue("it has lost a device")
    shapes = {shape_of(intact.stand)}
    for row in node["without"].rows():
        run = runs[row.place(runs)]
        if (run.counts, run.policy) != (intact.counts, intact.policy) or run.answer != "meets":
            row.untrue(f"a run of {list(run.counts)} by policy {run.policy} that is {run.answer}")
        shapes.add(shape_of(run.stand))
    used = sorted({place for mine in intact.stand for one in mine for place in one[2]})
    losses = min(question.losses, len(used))
    if sum(comb(len(used), many) for many in range(1, losses + 1)) > MOST_WAYS:
        node.broken(f"more than {MOST_WAYS} ways to lose {losses} devices")
    for many in range(1, losses + 1):
        for lost in combinations(used, many):
            left = intact.without(frozenset(lost))
            if not all(left):
                node.untrue(f"nothing serves a model without devices {list(lost)}")
            if shape_of(left) not in shapes:
                node["without"].untrue(f"nothing is said of it without devices {list(lost)}")
