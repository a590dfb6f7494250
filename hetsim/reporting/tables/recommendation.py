"""Tables and record of the cheapest platform, and of the reasons against cheaper ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from hetsim.analysis.verdict import LIKELY
from hetsim.core.text import fields, grouped, plain, records
from hetsim.core.units import format_percentile, format_seconds
from hetsim.problem.parts import Z80
from hetsim.problem.record import weakest_of
from hetsim.provisioning.platforms.answer import Binding, Recommendation, devices_of, nearest
from hetsim.provisioning.platforms.components import platform_file
from hetsim.provisioning.platforms.policies import Policy
from hetsim.provisioning.platforms.priced import (
    HOST_PARTS_USD,
    TARIFF_OF,
    TARIFF_USD_PER_KWH,
    PricedOffer,
    Purchase,
)
from hetsim.provisioning.platforms.question import Question
from hetsim.provisioning.platforms.robustness import Robustness
from hetsim.reporting.console import bold, pairs, stack, table, table_of
from hetsim.reporting.formatting import ABSENT, big, latency_text, percent
from hetsim.reporting.tables.capacity import surviving_record, surviving_report
from hetsim.reporting.tables.question import figures_text
from hetsim.reporting.tables.service_record import served_text, service_record
from hetsim.reporting.tables.workload import arrivals_record, objectives_record
from hetsim.simulation.service.resolution import Resolved
from hetsim.simulation.service.service import Objective, Service, StreamService
from hetsim.statistics.intervals import percentile_at
from hetsim.workload.files.reader import deployment_record

MOST_EXCUSES = 12
"""Maximum number of platforms whose reasons are shown one by one."""

MOST_KINDS = 4
"""Maximum number of kinds with one reason that are shown one by one."""


def _tried(policies: Sequence[Policy], *, wide: bool) -> str:
    """Policies in a line: their number, or with `wide` each in words, ``each`` ones joined."""
    if not wide:
        batches = sorted({policy.max_batch for policy in policies})
        return (
            f"{len(policies)} policies of routing, placement and batches of up to "
            f"{', '.join(map(str, batches))} (all in --json)"
        )
    each = [policy for policy in policies if policy.placement == "each"]
    said = [str(policy) for policy in policies if policy.placement != "each"]
    every = ["every placement in each of these batch sizes, where few remain"] if each else []
    return "; ".join([*said, *every])


def recommendation_report(found: Recommendation, *, wide: bool = False) -> RenderableType:
    """Return the answer with its latencies, the next best, and the reasons against cheaper ones.

    With `wide` also each policy that was simulated.
    """
    if found.purchase is not None:
        return _purchase_report(found, found.purchase, wide=wide)
    question, best = found.found.question, found.best
    sets = dict.fromkeys(" + ".join(devices_of(question, one)) for one in question.splits)
    next_best = None if best is None else "no other platform meets every objective"
    if best is not None and found.runner_up is not None and found.runner_up_cost is not None:
        more = found.runner_up_cost / best.cost - 1 if best.cost else 0.0
        costs = amount(found.runner_up_cost, found.unit)
        next_best = f"{counts_text(found.runner_up)}: {costs}, {percent(more, sign=True)}"
    chosen = None
    if best is not None:
        chosen = f"{counts_text(best.counts)}: {amount(best.cost, found.unit)}"
    served = () if best is None else best.service.resolved
    robustness = (
        found.robustness if found.robustness is not None and found.robustness.near else None
    )
    survived = None if best is None else best.survived
    return stack(
        pairs(
            [
                ("objective", _asked(found)),
                (
                    "catalog",
                    f"{', '.join(kind.name for kind in question.kinds)}; up to "
                    f"{question.max_devices} devices: {big(found.vectors)} platforms, ordered by "
                    f"{AIMED[question.aim]}",
                ),
                ("plans", f"{found.plans}: {', '.join(sets)}" if sets else None),
                ("simulated", _tried(found.policies, wide=wide)),
                ("best", chosen),
                *(("served", served_text(one)) for one in served),
                ("next best", next_best),
                *priced_rows(question),
                *(("figures", text) for text in _figures(served)),
            ]
        ),
        None if best is None else _latencies(best.service),
        _excuses(found),
        None if found.binding is None else _binding(found.binding),
        None if robustness is None else _near(robustness, found.unit),
        None if survived is None else surviving_report(survived),
        [
            bold(sentence(found)),
            *([] if robustness is None else [Text(plain(sure_sentence(found, robustness)))]),
        ],
    )


# One model at a rate


def _purchase_report(found: Recommendation, bought: Purchase, *, wide: bool) -> RenderableType:
    """Report of the answer, other choices, reasons against cheaper ones, deployment, certainty."""
    robustness, shown = found.robustness, served_text if wide else _served
    served = () if found.best is None else found.best.service.resolved
    sure = None
    if robustness is not None:
        share = f"{percent(robustness.meets)} of {robustness.draws} Monte Carlo samples"
        sure = f"With cost-model error it meets every objective in {share}."
    rows = [
        *(("served", shown(one)) for one in served),
        ("how sure", sure),
        *(("figures", text) for text in (_figures(served) if wide else ())),
        ("simulated", _tried(found.policies, wide=True) if wide else None),
        ("prices", " ".join(price_texts(bought))),
    ]
    head = [bold(_purchase_sentence(found, bought))]
    if served:
        head.append(Text(plain(_cheaper(bought, bought.choices[0].hourly_usd))))
    choices = _choices(bought) if bought.choices else None
    return stack(head, choices, _reasons(found, bought, wide=wide), pairs(rows))


def _served(one: Resolved) -> str:
    """Deployment in short: instances by their sorts of devices, batches and routing."""
    each: dict[str, int] = {}
    for entry, plans in zip(one.served.instances, one.plans, strict=True):
        names = [name.rpartition(".")[0] or name for name in plans[0][0].devices_used]
        split = "" if len(names) == 1 else f", split by {plans[0][0].strategy}"
        sort = f"{' + '.join(map(plain, names))}{split}"
        each[sort] = each.get(sort, 0) + entry.count
    text = "; ".join(f"{many} x {sort}" for sort, many in each.items())
    batching = one.served.dynamic_batching
    if batching is not None:
        text += f"; batch size up to {batching.max_batch_size}"
    if sum(each.values()) > 1:
        text += f"; requests routed by {one.served.routing.replace('_', ' ')}"
    return text


def _choices(bought: Purchase) -> Table:
    return table_of(
        bought.choices,
        "choice=label",
        ("what", lambda one: counts_text(one.counts)),
        ("#purchase", lambda one: ABSENT if one.usd is None else f"${one.usd:,.0f}"),
        ("#$/h", lambda one: _hourly(one.hourly_usd)),
        f"#{format_percentile(bought.choices[0].percentile).capitalize()}=latency_s",
        "#rate / bound=utilization",
    )


def _hourly(usd: float) -> str:
    return f"{usd:.3f}" if usd >= 0.01 else f"{usd:.2g}"


_STANDINGS: Mapping[str, tuple[str, str]] = {
    "slow": ("one request takes at least {figure}, above the limit", "proved"),
    "refused": ("no plan runs the model", "proved"),
    "many": ("the rate takes at least {least}, above --max-devices", "proved"),
    "dearer": ("as many as the rate takes cost no less than the answer", "proved"),
    "misses": ("every number that was simulated misses an objective", "simulated"),
    "open": ("the time limit ended before a price and a simulation", "open"),
}
"""Reasons why kinds alone are not the answer, with the closest one's figures, and sources."""


def _reasons(found: Recommendation, bought: Purchase, *, wide: bool) -> Table:
    """Table of the reasons why single kinds, and mixes that cost less, are not the answer.

    Kinds with the same reason share one row, as do simulated and undecided mixes, which `wide`
    lists one by one.
    """
    chosen = {} if found.best is None else found.best.counts
    most = len(bought.singles) if wide else MOST_KINDS
    rows = []
    for standing, (text, how) in _STANDINGS.items():
        same = {standing, "weak"} if standing == "dearer" else {standing}
        mine = [one for one in bought.singles if one.standing in same and one.kind not in chosen]
        if mine:
            figures = [one.figure for one in mine if one.figure is not None]
            why = text.format(
                figure=format_seconds(min(figures, default=0.0)),
                least=min((one.least for one in mine if one.least is not None), default=0),
            )
            rows.append((plain(_named([one.kind for one in mine], most)), why, how))
    for undecided, how in ((False, "simulated"), (True, "undecided")):
        tried = [one for one in found.excuses if not one.proved and one.undecided == undecided]
        if undecided and (unplayed := bought.left_open - len(tried)) > 0:
            first = "; ".join(counts_text(one) for one in bought.unplayed[:2])
            what = f"{big(unplayed)} {_mixes(unplayed)}, e.g. {first}"
            rows.append((plain(what), "the time limit ended before a simulation", "open"))
        for one in tried if wide else tried[-1:]:
            name = counts_text(one.counts or {})
            if len(tried) > 1 and not wide:
                name = f"{len(tried)} {_mixes(len(tried))}, e.g. {name}"
            rows.append((plain(name), plain(one.what.removeprefix("undecided: ")), how))
    return table(("not", "because", "|"), rows)


def _named(names: Sequence[str], most: int) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _mixes(number: int) -> str:
    return "mix" if number == 1 else "mixes"


def price_texts(bought: Purchase) -> Iterator[str]:
    """Yield the sources of prices: their months, depreciation, electricity, hosts and links."""
    months = sorted(one.month for one in bought.had.values())
    span = " to ".join(months[:1] + months[-1:])
    dated = f"Prices are of {span}, in US dollars without tax. " if span else ""
    tariff = f"${bought.tariff_usd_per_kwh:g}/kWh"
    if bought.tariff_usd_per_kwh == TARIFF_USD_PER_KWH:
        tariff += f" ({TARIFF_OF})"
    yield (
        f"{dated}Purchased hardware depreciates over {bought.lifetime_years:g} years "
        f"(--depreciation) and draws full power all the time at {tariff} (--tariff); rent "
        "includes electricity."
    )
    if any(one.host is not None for one in bought.had.values()):
        host = next(one.host for one in bought.had.values() if one.host is not None)
        yield (
            f"A card stands in a host with {host.what}; the other parts of the host are assumed "
            f"at ${HOST_PARTS_USD:,.0f}."
        )
    if bought.had:
        yield "Requests reach boards by 1 Gbit/s Ethernet and machines by 10 Gbit/s."
    if bought.unpriced:
        yield f"No price is listed for {_named(bought.unpriced, MOST_KINDS)}."


def _purchase_sentence(found: Recommendation, bought: Purchase) -> str:
    stream = found.workload.streams[0]
    rate = sum(ask.rate_per_s or 0.0 for ask in found.found.question.asks)
    asked = f"{rate:g}/s with {' and '.join(map(str, stream.slos))}"
    if found.best is None:
        open_ = [one.kind for one in bought.singles if one.standing == "open"]
        undecided = f"Undecided: no mix is known to sustain {asked}, and the time limit"
        if open_:
            return (
                f"{undecided} ended before {len(open_)} kinds were priced; name fewer in --catalog."
            )
        if bought.left_open:
            return f"{undecided} left {bought.left_open} mixes open."
        return f"No hardware of the catalog is known to sustain {asked}."
    best = bought.choices[0]
    rents = {one.kind for one in bought.singles if one.usd is None}
    buys = {name: n for name, n in best.counts.items() if name not in rents}
    rent = {name: n for name, n in best.counts.items() if name in rents}
    hourly = f"${_hourly(best.hourly_usd)}/h"
    if not rent:
        return f"Buy {counts_text(buys)} (${best.usd or 0:,.0f}, {hourly} with power)."
    if not buys:
        return f"Rent {counts_text(rent)} ({hourly})."
    return (
        f"Buy {counts_text(buys)} (${best.usd or 0:,.0f}) and rent {counts_text(rent)} "
        f"({hourly} in all, with power)."
    )


def _cheaper(bought: Purchase, hourly_usd: float) -> str:
    """Outcome of cheaper mixes, in a sentence or two."""
    parts = ["those whose devices sustain too little are ruled out by proof"]
    if bought.proved is not None:
        parts = []
        if bought.proved:
            are = "is" if bought.proved == 1 else "are"
            parts = [f"{big(bought.proved)} {are} ruled out by proof"]
    if bought.missed:
        parts.append(f"{big(bought.missed)} missed in simulation")
    if bought.left_open:
        are = "is" if bought.left_open == 1 else "are"
        parts.append(f"{big(bought.left_open)} {are} undecided")
    text = f"Of the cheaper mixes, {', '.join(parts)}." if parts else "No mix costs less."
    if not bought.complete:
        gap = 1 - bought.least_hourly_usd / hourly_usd
        text += (
            f" The search is incomplete: any answer costs at least "
            f"${_hourly(bought.least_hourly_usd)}/h (optimality gap {percent(gap)})."
        )
    return text


def purchase_record(bought: Purchase) -> dict[str, Any]:
    """Return the record of a purchase for ``to_json``."""
    return {
        **fields(
            bought,
            "lifetime_years tariff_usd_per_kwh choices(label counts usd hourly_usd percentile "
            "latency_s utilization) least_hourly_usd cheaper proved missed left_open complete "
            "unplayed seconds",
        ),
        "kinds": [
            {
                **fields(one, "kind hourly_usd usd standing least copies figure"),
                **_offer_record(bought.had.get(one.kind)),
            }
            for one in bought.singles
        ],
        "unpriced": list(bought.unpriced),
    }


def _offer_record(had: PricedOffer | None) -> dict[str, Any]:
    if had is None:
        return {}
    return fields(had, "what hardware=offer.name month source=offer.source host=host.name")


def priced_rows(question: Question) -> list[tuple[str, str]]:
    """Return one line per model with its precision on each device."""
    rows = []
    for at, model in enumerate(question.models):
        by = grouped(
            ("as if " * one.as_if + (one.precision or "rates of the datasheet"),
             device_name(question, of_type))
            for (of_type, of_model), one in sorted(question.priced.items())
            if of_model == at
        )  # fmt: skip
        if by:
            told = "; ".join(f"{what} on {', '.join(names)}" for what, names in by.items())
            rows.append(("priced", plain(f"{model}: {told}")))
    return rows


def device_name(question: Question, of_type: int) -> str:
    """Return the name of a kind of device without the number of the copy: ``rock-npu``."""
    return question.types[of_type].name.removesuffix(".0")


def _figures(resolved: Sequence[Resolved]) -> Iterator[str]:
    for one in resolved:
        if one.problem.platform is not None:
            model = f"{plain(one.served.model)}: " if len(resolved) > 1 else ""
            yield model + figures_text(one.problem.evidence, one.problem.link_evidence)


def sure_sentence(found: Recommendation, robustness: Robustness) -> str:
    """Return the probability that the answer is right, and the choice of least regret."""
    answer, least = robustness.candidates[robustness.answer], robustness.least_regret
    of = f"{robustness.draws} Monte Carlo samples" if robustness.draws > 1 else "demands"
    if len(robustness.demand) > 1 and robustness.draws > 1:
        of += f" and {len(robustness.demand)} demands"
    text = (
        f"How sure: over {of} it meets every objective in {percent(answer.meets)}, and is the "
        f"cheapest of its neighbours that does in {percent(robustness.right)}"
    )
    if robustness.none:
        text += f"; in {percent(robustness.none)} none of them does"
    if least is answer:
        return f"{text}. It has the least regret of them."
    return (
        f"{text}. {counts_text(least.counts)}, {amount(least.cost, found.unit)}, has the least "
        f"regret: it meets them in {percent(least.meets)}."
    )


def _near(robustness: Robustness, unit: str) -> Table:
    return table_of(
        robustness.candidates,
        ("near it", lambda one: counts_text(one.counts)),
        f"#{unit}=cost",
        "#meets=meets%",
        "#cheapest=cheapest%",
        ("#regret", lambda one: f"{one.regret:.3g}"),
    )


def counts_text(counts: Mapping[str, int]) -> str:
    """Return a vector of counts in words."""
    return " + ".join(f"{count} {name}" for name, count in counts.items()) or "nothing"


def amount(cost: float, unit: str) -> str:
    """Return a number with its unit, in the singular for one device."""
    return f"{cost:.4g} {unit[:-1] if unit == 'devices' and cost == 1 else unit}"


def sentence(found: Recommendation) -> str:
    """Return the answer in one sentence."""
    if found.purchase is not None:
        text, choices = _purchase_sentence(found, found.purchase), found.purchase.choices
        return f"{text} {_cheaper(found.purchase, choices[0].hourly_usd)}" if choices else text
    if found.best is None:
        if found.impossible is not None:
            return (
                f"No platform of the {big(found.vectors)} meets every objective, proved: "
                f"{found.impossible}."
            )
        if found.undecided:
            return f"Undecided: {_each(found.undecided)} may meet every objective."
        near = nearest(found.found)
        if not near:
            return (
                f"No platform meets every objective with {found.plans}; other plans are not "
                "excluded."
            )
        return f"No platform that was simulated meets every objective. The closest is {near}."
    robustness = found.robustness
    head = "Cheapest"
    if robustness is None or robustness.meets < LIKELY:
        head = "Cheapest by the point estimates" if found.found.question.sources else head
    text = (
        f"{head}: {plain(counts_text(found.best.counts))}, {amount(found.best.cost, found.unit)}."
    )
    missed = sum(not one.proved and not one.undecided for one in found.excuses)
    others = f", or missed in simulation ({missed})" if missed else ""
    text += f" Cheaper platforms were ruled out by proof{others}."
    if found.undecided:
        text += f" Undecided: {_each(found.undecided)}."
    if robustness is None or robustness.draws == 1:
        return text
    share = f"{100 * robustness.meets:.3g} % of {robustness.draws} Monte Carlo samples"
    return f"{text} It meets every objective in {share} of cost-model error."


def _each(vectors: tuple[Mapping[str, int], ...]) -> str:
    shown = "; ".join(counts_text(one) for one in vectors[:3])
    return shown + (f" and {len(vectors) - 3} more" if len(vectors) > 3 else "")


def _asked(found: Recommendation) -> str:
    parts = [
        f"{stream.name} {' and '.join(map(str, stream.slos))}"
        for stream in found.workload.streams
        if stream.slos
    ]
    question = found.found.question
    came = "in the long run"
    if question.arrivals is not None:
        came = f"counted over {big(len(question.arrivals))} requests"
    losses = question.losses
    lost = f"; also with any {'one device' if losses == 1 else f'{losses} devices'} lost"
    return f"{'; '.join(parts)}{lost if losses else ''}; {came}, seed {found.workload.seed}"


def _latencies(service: Service) -> Table:
    rows = [(at, one, stream) for stream in service.streams
            for at, one in enumerate(stream.objectives)]  # fmt: skip

    def latency(row: tuple[int, Objective, StreamService]) -> str:
        known = percentile_at(row[2].percentiles, row[1].slo.percentile)
        return ABSENT if known is None else latency_text(known.estimate_s)

    return table_of(
        rows,
        ("stream", lambda row: "" if row[0] else row[2].name),
        ("#requests", lambda row: "" if row[0] else big(row[2].requests)),
        ("#objective", lambda row: str(row[1].slo)),
        ("#on time", lambda row: percent(row[1].on_time)),
        ("#latency", latency),
    )


def _excuses(found: Recommendation) -> Table:
    tried = [one for one in found.excuses if not one.proved]
    rows = [(_platforms(one.vectors), one.what, "proved") for one in found.excuses if one.proved]
    rows += [
        (counts_text(one.counts or {}), one.what, "undecided" if one.undecided else "simulated")
        for one in tried[:MOST_EXCUSES]
    ]
    if len(tried) > MOST_EXCUSES:
        rows.append((f"{len(tried) - MOST_EXCUSES} more", "each misses an objective", "simulated"))
    if found.dearer:
        dearer = "cost more" if found.best is not None else "not searched"
        rows.append((_platforms(found.dearer), dearer, ""))
    return table(("not", "because", "|"), rows)


def _platforms(number: int) -> str:
    return f"{big(number)} platform{'' if number == 1 else 's'}"


def _binding(binding: Binding) -> list[RenderableType]:
    what = f"{binding.what}; it has {binding.has:.4g} of {binding.needs:.4g} {binding.unit}"
    if binding.unit == "s":
        has, limit = format_seconds(binding.has), format_seconds(binding.needs)
        what = f"{binding.what} is {has}; the limit is {limit}"
    elif binding.unit == "devices":
        what = f"{binding.what}; at least one such device is needed"
    lines = [f"Closest cheaper platform: {counts_text(binding.counts)}. There {what}."]
    lines += [
        f"  {'enough' if one.enough else 'needed at least'}: {one.what}" for one in binding.levers
    ]
    return [Text(plain(line)) for line in lines]


def recommendation_record(found: Recommendation) -> dict[str, Any]:
    """Return the record for ``to_json``."""
    question = found.found.question
    best = found.best
    answer = found.found.answer
    resolved = () if best is None else best.service.resolved
    devices = [each for one in resolved for each in one.problem.evidence]
    links = [each for one in resolved for each in one.problem.link_evidence]
    return {
        "schema": "hetsim-recommendation/1",
        "verdict": {"say": sentence(found)},
        "objective": question.aim,
        **fields(found, "unit max_devices=found.question.max_devices losses=found.question.losses"),
        "seed": found.workload.seed,
        "kinds": records(question.kinds, "name cost most"),
        "arrivals": arrivals_record(found.workload),
        "objectives": objectives_record(question.streams),
        "vectors": found.vectors,
        # Arrays have no known values.
        "weakest": weakest_of(devices, links) if devices or links else None,
        "priced": [
            {
                "model": question.models[of_model],
                "device": device_name(question, of_type),
                **fields(one, "precision? as_if status=evidence.status"),
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
            "platform": platform_file(question, found.components, answer.counts),
            "deployment": deployment_record(best.deployment),
            "service": service_record(best.service),
            "survived": None if best.survived is None else surviving_record(best.survived),
        },
        "runner_up": found.runner_up and fields(found, "counts=runner_up cost=runner_up_cost"),
        **fields(found, "undecided excuses(because=what vectors proved counts) dearer impossible"),
        "doubt": None if found.robustness is None else _robustness_record(found.robustness),
        **({} if found.purchase is None else {"purchase": purchase_record(found.purchase)}),
        **fields(
            found, "binding(what needs has gap unit counts proved levers(sort what to enough))"
        ),
    }


def _robustness_record(robustness: Robustness) -> dict[str, Any]:
    return {
        **fields(robustness, "draws demand near meets"),
        "right": robustness.right if robustness.near else None,
        **fields(robustness, "none answer"),
        "least_regret": robustness.candidates.index(robustness.least_regret),
        **fields(robustness, "candidates(counts cost meets cheapest regret)"),
    }


AIMED = {
    "cost": "US dollars an hour",
    "energy": "watts at full load",
    "devices": "number of devices",
}
