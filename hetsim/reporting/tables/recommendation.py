"""The cheapest platform as tables and as a record: what it is, and what excludes the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.verdict import LIKELY
from hetsim.core.text import fields, plain
from hetsim.core.units import format_seconds
from hetsim.problem.parts import Z80
from hetsim.problem.record import weakest_of
from hetsim.provisioning.platforms.answer import Binding, Recommendation, devices_of, nearest
from hetsim.provisioning.platforms.doubt import Doubt
from hetsim.provisioning.platforms.pieces import deployment_file, platform_file
from hetsim.provisioning.platforms.policies import Policy
from hetsim.provisioning.platforms.question import UNITS, Question
from hetsim.reporting.tables.question import figures_text
from hetsim.reporting.tables.redundancy import surviving_record, surviving_report
from hetsim.reporting.tables.service_record import served_text, service_record
from hetsim.reporting.tables.workload import objectives_record
from hetsim.reporting.words.console import pairs, stack, table
from hetsim.reporting.words.text import ABSENT, big, latency_text, percent
from hetsim.simulation.service.resolution import Resolved

MOST_EXCUSES = 12
"""Vectors that are told of one by one."""


def _tried(policies: Sequence[Policy]) -> list[str]:
    """Policies in words; those of every placement together."""
    each = [policy for policy in policies if policy.placement == "each"]
    said = [str(policy) for policy in policies if policy.placement != "each"]
    return [*said, "in each of these batches every placement, where few are left"] if each else said


def recommendation_report(found: Recommendation) -> RenderableType:
    """Return what was asked, the answer with its latencies, and an excuse for all others."""
    question = found.found.question
    rows = [
        ("asked", _asked(found)),
        (
            "catalog",
            f"{', '.join(kind.name for kind in question.kinds)}; up to {question.max_devices} "
            f"devices: {big(found.vectors)} platforms, by {_aim(found)}",
        ),
    ]
    if question.splits:
        rows.append(("plans", f"{found.plans}: {_sets(question)}"))
    rows.append(("tried", "; ".join(_tried(found.policies))))
    best = found.best
    if best is not None:
        rows.append(("best", f"{counts_text(best.counts)}: {money(found, best.cost)}"))
        rows += [("served", served_text(one)) for one in best.service.resolved]
    if found.runner_up is not None and found.runner_up_cost is not None:
        assert best is not None
        more = found.runner_up_cost / best.cost - 1 if best.cost else 0.0
        rows.append(
            (
                "next",
                f"{counts_text(found.runner_up)}: {money(found, found.runner_up_cost)}, "
                f"{percent(more, sign=True)}",
            )
        )
    elif best is not None:
        rows.append(("next", "nothing else meets it"))
    rows += priced_rows(question)
    if best is not None:
        rows += [("figures", text) for text in _figures(best.service.resolved)]
    doubt = found.doubt if found.doubt is not None and found.doubt.near else None
    survived = None if best is None else best.survived
    sure = [] if doubt is None else [Text(plain(sure_sentence(found, doubt)))]
    return stack(
        pairs(rows),
        None if best is None else _latencies(found),
        _excuses(found),
        None if found.binding is None else _binding(found.binding),
        None if doubt is None else _near(found, doubt),
        None if survived is None else surviving_report(survived),
        [Text(sentence(found), style="bold"), *sure],
    )


def priced_rows(question: Question) -> list[tuple[str, str]]:
    """Return a line a model that says in which precision it is priced on which device."""
    rows = []
    for at, model in enumerate(question.models):
        by: dict[str, list[str]] = {}
        for (of_type, of_model), one in sorted(question.priced.items()):
            if of_model == at:
                precision = one.precision or "rates of the datasheet"
                told = f"as if {precision}" if one.as_if else precision
                by.setdefault(told, []).append(device_name(question, of_type))
        if by:
            told = "; ".join(f"{what} on {', '.join(names)}" for what, names in by.items())
            rows.append(("priced", plain(f"{model}: {told}")))
    return rows


def device_name(question: Question, of_type: int) -> str:
    """Return the name of a sort of device without the number of the copy: ``rock-npu``."""
    return question.types[of_type].name.removesuffix(".0")


def _figures(resolved: Sequence[Resolved]) -> Iterator[str]:
    for one in resolved:
        if one.problem.platform is not None:
            model = f"{plain(one.served.model)}: " if len(resolved) > 1 else ""
            yield model + figures_text(one.problem.evidence, one.problem.link_evidence)


def sure_sentence(found: Recommendation, doubt: Doubt) -> str:
    """Return how likely the answer is right, and what is regretted least."""
    answer, least = doubt.candidates[doubt.answer], doubt.least_regret
    of = f"{doubt.draws} samples" if doubt.draws > 1 else "what comes"
    if len(doubt.demand) > 1 and doubt.draws > 1:
        of += f" by {len(doubt.demand)} demands"
    text = (
        f"How sure: over {of} it meets in {percent(answer.meets)}, and is the cheapest near it "
        f"that does in {percent(doubt.right)}"
    )
    if doubt.none:
        text += f"; in {percent(doubt.none)} nothing near it does"
    if least is answer:
        return f"{text}. Nothing near it is regretted less."
    return (
        f"{text}. Least regret: {counts_text(least.counts)}, {money(found, least.cost)}, which "
        f"meets in {percent(least.meets)}."
    )


def _near(found: Recommendation, doubt: Doubt) -> Table:
    unit = UNITS[found.found.question.aim]
    return table(
        ("near it", f"#{unit}", "#meets", "#cheapest", "#regret"),
        (
            (
                counts_text(one.counts),
                f"{one.cost:.4g}",
                percent(one.meets),
                percent(one.cheapest),
                f"{one.regret:.3g}",
            )
            for one in doubt.candidates
        ),
    )


def counts_text(counts: Mapping[str, int]) -> str:
    """Return a vector in words."""
    return " + ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"


def money(found: Recommendation, cost: float) -> str:
    """Return a cost with its unit."""
    return amount(cost, UNITS[found.found.question.aim])


def amount(cost: float, unit: str) -> str:
    """Return a number with its unit, one of which may be one device."""
    return f"{cost:.4g} {unit[:-1] if unit == 'devices' and cost == 1 else unit}"


def sentence(found: Recommendation) -> str:
    """Return the answer in one sentence."""
    if found.best is None:
        if found.impossible is not None:
            return f"No platform of the {big(found.vectors)} meets it: {found.impossible}: proved."
        if found.undecided:
            return f"Undecided: {_each(found.undecided)} may meet it."
        near = nearest(found.found)
        if not near:
            return f"None meets it with {found.plans}: proved of such plans alone."
        return f"None that was tried meets it. Nearest: {near}."
    doubt = found.doubt
    head = "Best"
    if doubt is None or doubt.meets < LIKELY:
        head = "Best by the point estimates" if found.found.question.sources else head
    text = f"{head}: {plain(counts_text(found.best.counts))}, {money(found, found.best.cost)}"
    if found.undecided:
        text += f", but for what is undecided: {_each(found.undecided)}."
    elif not found.found.tried:
        text += ": all that costs less is excluded by proof."
    else:
        text += ": what costs less is excluded by proof, or misses by each policy that was tried."
    if doubt is None or doubt.draws == 1:
        return text
    share = f"{100 * doubt.meets:.3g} % of {doubt.draws} Monte Carlo samples"
    return f"{text} It meets every objective in {share} of what the figures may be off by."


def _each(vectors: tuple[Mapping[str, int], ...]) -> str:
    shown = "; ".join(counts_text(one) for one in vectors[:3])
    return shown + (f" and {len(vectors) - 3} more" if len(vectors) > 3 else "")


def _aim(found: Recommendation) -> str:
    words = {
        "cost": "US dollars an hour",
        "energy": "watts where all are busy",
        "devices": "how many they are",
    }
    return words[found.found.question.aim]


def _sets(question: Question) -> str:
    """The sets of devices over which models are split."""
    each = dict.fromkeys(" + ".join(devices_of(question, one)) for one in question.splits)
    return ", ".join(each)


def _asked(found: Recommendation) -> str:
    parts = [
        f"{stream.name} {' and '.join(map(str, stream.slos))}"
        for stream in found.workload.streams
        if stream.slos
    ]
    question = found.found.question
    came = "in the long run"
    if question.arrivals is not None:
        came = f"of {big(len(question.arrivals))} requests"
    losses = question.losses
    lost = f"; without any {'one device' if losses == 1 else f'{losses} devices'}, too"
    return f"{'; '.join(parts)}{lost if losses else ''}; {came}, seed {found.workload.seed}"


def _latencies(found: Recommendation) -> Table:
    assert found.best is not None
    rows = []
    for stream in found.best.service.streams:
        known = {one.percentile: one.estimate_s for one in stream.percentiles}
        for at, one in enumerate(stream.objectives):
            estimate_s = known.get(one.slo.percentile)
            there = ABSENT if estimate_s is None else latency_text(estimate_s)
            named = ("", "") if at else (stream.name, big(stream.requests))
            rows.append((*named, str(one.slo), percent(one.on_time), there))
    return table(("stream", "#requests", "#asked", "#on time", "#there"), rows)


def _excuses(found: Recommendation) -> Table:
    tried = [one for one in found.excuses if not one.proved]
    rows = [(_platforms(one.vectors), one.what, "proved") for one in found.excuses if one.proved]
    rows += [
        (counts_text(one.counts or {}), one.what, "undecided" if one.undecided else "tried")
        for one in tried[:MOST_EXCUSES]
    ]
    if len(tried) > MOST_EXCUSES:
        rows.append((f"{len(tried) - MOST_EXCUSES} more", "each misses an objective", "tried"))
    if found.dearer:
        dearer = "cost more" if found.best is not None else "not looked at"
        rows.append((_platforms(found.dearer), dearer, ""))
    return table(("not", "because", "|"), rows)


def _platforms(number: int) -> str:
    return f"{big(number)} platform{'' if number == 1 else 's'}"


def _binding(binding: Binding) -> list[RenderableType]:
    if binding.unit == "s":
        amounts = f"{format_seconds(binding.has)}, {format_seconds(binding.needs)} is asked"
    else:
        amounts = (
            f"it has {binding.has:.4g}, {binding.needs:.4g} is needed, {binding.gap:.4g} "
            f"{binding.unit} short"
        )
    text = f"Nearest that costs less: {counts_text(binding.counts)}: {binding.what}; {amounts}."
    found: list[RenderableType] = [Text(plain(text))]
    for lever in binding.levers:
        how = "lets in" if lever.enough else "at least"
        found.append(Text(plain(f"  {how}: {lever.what}")))
    return found


def recommendation_record(found: Recommendation) -> dict[str, Any]:
    """Return the record for ``to_json``."""
    question = found.found.question
    best, binding = found.best, found.binding
    answer = found.found.answer
    return {
        "schema": "hetsim-recommendation/1",
        "verdict": {"say": sentence(found)},
        "objective": question.aim,
        "unit": UNITS[question.aim],
        "max_devices": question.max_devices,
        "losses": question.losses,
        "seed": found.workload.seed,
        "kinds": [fields(kind, "name cost most") for kind in question.kinds],
        "objectives": objectives_record(question.streams),
        "vectors": found.vectors,
        "weakest": None if best is None else _weakest(best.service.resolved),
        "priced": [
            {
                "model": question.models[of_model],
                "device": device_name(question, of_type),
                "precision": one.precision or None,
                "as_if": one.as_if,
                "status": one.evidence.status,
                "within_80": exp(Z80 * one.evidence.sd),
            }
            for (of_type, of_model), one in sorted(question.priced.items())
        ],
        "splits": [
            {
                "model": question.models[one.model],
                "strategy": one.strategy,
                "devices": list(devices_of(question, one)),
            }
            for one in question.splits
        ],
        "policies": [str(policy) for policy in found.policies],
        "answer": None
        if best is None or answer is None
        else {
            **fields(best, "counts cost"),
            "policy": str(best.policy),
            "platform": platform_file(question, found.pieces, answer.counts),
            "deployment": deployment_file(best.deployment),
            "service": service_record(best.service),
            "survived": None if best.survived is None else surviving_record(best.survived),
        },
        "runner_up": None
        if found.runner_up is None
        else fields(found, "counts=runner_up cost=runner_up_cost"),
        **fields(found, "undecided"),
        "excuses": [fields(one, "because=what vectors proved counts") for one in found.excuses],
        **fields(found, "dearer impossible"),
        "doubt": None if found.doubt is None else _doubt_record(found.doubt),
        "binding": None
        if binding is None
        else {
            **fields(binding, "what needs has gap unit counts proved"),
            "levers": [fields(lever, "sort what to enough") for lever in binding.levers],
        },
    }


def _doubt_record(doubt: Doubt) -> dict[str, Any]:
    return {
        **fields(doubt, "draws demand near meets"),
        "right": doubt.right if doubt.near else None,
        **fields(doubt, "none answer"),
        "least_regret": doubt.candidates.index(doubt.least_regret),
        "candidates": [
            fields(one, "counts cost meets cheapest regret") for one in doubt.candidates
        ],
    }


def _weakest(resolved: Sequence[Resolved]) -> str | None:
    """The weakest status of what the answer's times rest on; None of arrays."""
    devices = [each for one in resolved for each in one.problem.evidence]
    links = [each for one in resolved for each in one.problem.link_evidence]
    return weakest_of(devices, links) if devices or links else None
