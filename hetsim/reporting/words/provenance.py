"""What the figures of a report rest on, in a line: the weakest first, then each device and link."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp

from hetsim.base.text import plain
from hetsim.problem.evidence import Z80, Evidence
from hetsim.problem.problem import Problem
from hetsim.problem.record import weakest_of
from hetsim.reporting.words.like_devices import folded
from hetsim.reporting.words.text import count, percent, ratio


def figures_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return the lines that say what the prices of a problem rest on; none for arrays."""
    if problem.platform is None:
        return []
    supposed = problem.platform.supposed
    text = figures_text(problem.evidence, problem.link_evidence, supposed=supposed is not None)
    rows = [("figures", text)]
    if supposed is not None:
        rows.insert(0, ("what if", plain(str(supposed))))
    return rows


def figures_text(
    devices: Sequence[Evidence], links: Sequence[Evidence], *, supposed: bool = False
) -> str:
    """Return ``weakest: estimate; cpu: fitted, ...; links: estimate, 80 % within 1.57x``.

    Devices and links of which the same is told are told together; links by their kind, where
    they differ. Where something is `supposed` of the platform, that is the weakest.
    """
    told = [
        f"{', '.join(folded(names))}: {text}"
        for text, names in _alike([(one.name, evidence_text(one)) for one in devices]).items()
    ]
    kinds = _alike([(one.of, evidence_text(one)) for one in links])
    told += [
        f"links{'' if len(kinds) == 1 else ' ' + ', '.join(names)}: {text}"
        for text, names in kinds.items()
    ]
    weakest = weakest_of(devices, links, supposed=supposed)
    return plain("; ".join((f"weakest: {weakest}", *told)))


def evidence_text(one: Evidence) -> str:
    """Return what the figures of one device or link rest on, and how far times may be off."""
    of = f"from {one.precision} figures" if one.status == "derived" else one.precision
    precision = f" ({of})" if one.precision else ""
    status = f"{one.status}, else {one.before}" if one.before else one.status
    text = f"{status}{precision}"
    if one.error is not None:
        rows = f"{count(one.error.rows, 'row')} of {count(one.error.networks, 'network')}"
        known = one.likely is not None and one.likely.same
        text += f", median error {percent(one.error.median_of(known))} over {rows}"
    if one.likely is not None:
        text += f", {one.likely}"
    if one.measured > 0 and one.status != "measured":
        text = f"{percent(one.measured)} measured by a profile, the rest {text}"
    return f"{text}, 80 % within {ratio(exp(Z80 * one.sd))}"


def _alike(told: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Names by what is told of them, each once, in order."""
    found: dict[str, dict[str, None]] = {}
    for name, text in told:
        found.setdefault(text, {})[name] = None
    return {text: list(names) for text, names in found.items()}
