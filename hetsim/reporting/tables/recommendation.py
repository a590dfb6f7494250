"""The cheapest platform as a table: what it is, what comes next, and what excludes the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.verdict import LIKELY
from hetsim.core.text import plain
from hetsim.core.units import format_seconds
from hetsim.provisioning.platforms.answer import Binding, Recommendation, devices_of, nearest
from hetsim.provisioning.platforms.doubt import Doubt
from hetsim.provisioning.platforms.policies import Policy
from hetsim.provisioning.platforms.question import UNITS, Question
from hetsim.reporting.tables.question import figures_text
from hetsim.reporting.tables.service import served_text
from hetsim.reporting.tables.surviving import surviving_report
from hetsim.reporting.words.console import cell, new_table, pairs
from hetsim.reporting.words.text import big, latency_text, percent
from hetsim.simulation.service.resolving import Resolved

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
    parts: list[RenderableType] = [pairs(rows)]
    if best is not None:
        parts += ["", _latencies(found)]
    parts += ["", _excuses(found)]
    if found.binding is not None:
        parts += ["", *_binding(found.binding)]
    if found.doubt is not None and found.doubt.near:
        parts += ["", _near(found, found.doubt)]
    if best is not None and best.survived is not None:
        parts += ["", surviving_report(best.survived)]
    parts += ["", Text(sentence(found), style="bold")]
    if found.doubt is not None and found.doubt.near:
        parts.append(Text(plain(sure_sentence(found, found.doubt))))
    return Stack(*parts)


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
    table = new_table()
    table.add_column("near it", overflow="fold")
    unit = UNITS[found.found.question.aim]
    for name in (unit, "meets", "cheapest", "regret"):
        table.add_column(Text(name, justify="right"), justify="right", no_wrap=True)
    for one in doubt.candidates:
        table.add_row(
            cell(counts_text(one.counts)),
            f"{one.cost:.4g}",
            percent(one.meets),
            percent(one.cheapest),
            f"{one.regret:.3g}",
        )
    return table


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
    table = new_table()
    table.add_column("stream")
    for name in ("requests", "asked", "on time", "there"):
        table.add_column(Text(name, justify="right"), justify="right", no_wrap=True)
    assert found.best is not None
    for stream in found.best.service.streams:
        known = {one.percentile: one.estimate_s for one in stream.percentiles}
        for at, one in enumerate(stream.objectives):
            estimate = known.get(one.slo.percentile)
            table.add_row(
                cell(stream.name if not at else ""),
                big(stream.requests) if not at else "",
                str(one.slo),
                percent(one.on_time),
                "-" if estimate is None else latency_text(estimate),
            )
    return table


def _excuses(found: Recommendation) -> Table:
    table = new_table()
    table.add_column("not", overflow="fold")
    table.add_column("because", overflow="fold")
    table.add_column("", no_wrap=True)
    proved = [one for one in found.excuses if one.proved]
    tried = [one for one in found.excuses if not one.proved]
    for one in proved:
        table.add_row(_platforms(one.vectors), cell(one.what), "proved")
    for one in tried[:MOST_EXCUSES]:
        table.add_row(
            cell(counts_text(one.counts or {})),
            cell(one.what),
            "undecided" if one.undecided else "tried",
        )
    if len(tried) > MOST_EXCUSES:
        table.add_row(f"{len(tried) - MOST_EXCUSES} more", "each misses an objective", "tried")
    if found.dearer:
        dearer = "cost more" if found.best is not None else "not looked at"
        table.add_row(_platforms(found.dearer), dearer, "")
    return table


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
