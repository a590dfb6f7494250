"""What was asked, as lines of a header: model, platform, what prices rest on and leave out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import exp
from typing import TYPE_CHECKING

from hetsim.core.text import plain, tally
from hetsim.core.units import GIGA, format_seconds
from hetsim.hardware.spec import Platform
from hetsim.problem.parts import Z80, Evidence, Slower
from hetsim.problem.problem import Problem
from hetsim.problem.record import weakest_of
from hetsim.reporting.words.like_devices import fold_siblings, folded
from hetsim.reporting.words.text import count, listed, percent, ratio

if TYPE_CHECKING:
    from hetsim.cost.profiles.prices import MeasuredShare
    from hetsim.graph.model import Model


UNPRICED_SHOWN = 3
"""Op types that are not priced, and reasons why, that are listed; the JSON has every node."""

WAYS_SHOWN = 2
"""Nodes of control flow that a header names."""

KERNELS_SHOWN = 3
"""Kernels that match no node which are listed; the problem's record has all."""

KERNEL_NAME = 40
"""Characters of a kernel's name that are shown."""


def question(problem: Problem) -> list[tuple[str, str]]:
    """Return the lines that say which model is asked about, on which platform."""
    model, platform = problem.model, problem.platform
    rows: list[tuple[str, str]] = []
    if model is None:
        rows.append(("problem", f"{problem.name}, {count(problem.n, 'node')}"))
    else:
        dims = ", ".join(f"{name}={size}" for name, size in sorted(model.dims.items()))
        bound = f", {dims}" if dims else ""
        bound += f", {', '.join(sorted(model.frozen))} frozen" if model.frozen else ""
        rows.append(("model", f"{model.name} ({model.source}), {count(problem.n, 'node')}{bound}"))
        rows.extend(shape_rows(model))
    host = "" if problem.host is None else f", host {problem.devices[problem.host]}"
    links = {"fifo": "links first come, first served", "none": "links without contention"}
    rows.append(
        (
            "platform",
            f"{platform.name if platform is not None else 'given as arrays'}: "
            f"{', '.join(folded(problem.devices))}{host}; {links[problem.contention]}",
        )
    )
    rows += figures_rows(problem)
    if problem.pessimistic:
        rows.append(
            (
                "judged",
                "at the bad end: every device and link, alone or not, at the upper end of its "
                "80 % interval",
            )
        )
    return [
        *rows,
        *as_if_rows(problem),
        *taken_off_rows(problem),
        *measured_rows(problem),
        *unpriced_rows(problem),
    ]


def shape_rows(model: Model) -> list[tuple[str, str]]:
    """Return the lines that say what was made of a model where that is not as always.

    A graph that is too large to be rewritten, and what a run measured: shapes, and ways through
    control flow.
    """
    rows = []
    if model.unoptimised is not None:
        rows.append(("graph", f"as in the file: {model.unoptimised}"))
    seen = model.observed
    if seen is None:
        return rows
    by_data = sum(model.graph.tensors[name].measured for name in seen.shapes)
    others = len(seen.shapes) - by_data
    parts = []
    if by_data:
        parts.append(f"{by_data} depend on data: with other inputs they may be others")
    if others:
        parts.append(f"{others} that inference does not find")
    if parts:
        rows.append(("shapes", f"measured by a run with {seen.source}: {'; '.join(parts)}"))
    ways = [f"{turns:g} turns of {path}" for path, turns in seen.trips.items() if "/" not in path]
    if seen.given:
        ways += [f"{to} of {path}" for path, to in seen.branches.items() if "/" not in path]
    if ways:
        shown = ", ".join(ways[:WAYS_SHOWN])
        more = f", +{len(ways) - WAYS_SHOWN} more" if len(ways) > WAYS_SHOWN else ""
        rows.append(("control", f"as in a run with {seen.source}: {shown}{more}"))
    return [(name, plain(text)) for name, text in rows]


def as_if(executed: Mapping[str, str]) -> str:
    """Return what devices execute as if: ``int8 on npu, float16 on gpu.0-7``, and what that is."""
    by_precision: dict[str, list[str]] = {}
    for device, precision in executed.items():
        by_precision.setdefault(precision, []).append(device)
    told = [f"{kind} on {', '.join(folded(names))}" for kind, names in by_precision.items()]
    return f"{', '.join(told)}: priced so; values cross links in the model's own types"


def as_if_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return the line that says which devices execute the model as if in another precision."""
    return [("as if", as_if(problem.executed))] if problem.executed else []


def taken_off_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return the line that names conversions which compilers leave to the host; none without."""
    from hetsim.device.support.quantized import taken_off

    if problem.model is None or problem.platform is None:
        return []
    graph = problem.model.graph
    by_device = {name: taken_off(spec, graph) for name, spec in problem.platform.devices.items()}
    nodes = {v for found in by_device.values() for v in found}
    if not nodes:
        return []
    names = ", ".join(name for name, found in by_device.items() if found)
    what = listed(tally(problem.op_types[v] for v in sorted(nodes)), limit=2)
    return [
        ("taken off", f"{names}: {what} at the model's ends, which its compiler leaves to the host")
    ]


def device_as_if(problem: Problem, device: str) -> str:
    """Return the name of a device, and what it executes as if: ``npu, as if int8``."""
    precision = problem.executed.get(device)
    return device if precision is None else f"{device}, as if {precision}"


def unpriced_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return the lines that name what is not priced, and what data decide; none without."""
    rows: list[tuple[str, str]] = []
    if problem.unpriced:
        reasons = tally(problem.unpriced.values())
        whys = "; ".join(plain(why) for why in list(reasons)[:UNPRICED_SHOWN])
        more = len(reasons) - UNPRICED_SHOWN
        whys += f"; +{more} more" if more > 0 else ""
        rows.append(("not priced", f"{_named(problem, problem.unpriced)}: {whys}"))
    if problem.unsized:
        whys = "; ".join(plain(why) for why in tally(problem.unsized.values()))
        rows.append(("by FLOP", f"{_named(problem, problem.unsized)}: {whys}"))
    decided = [node for node in problem.least_s if node not in problem.unpriced]
    if decided:
        rows.append(
            (
                "data decide",
                f"{_named(problem, decided)}: counted at the most, by a bound at the least",
            )
        )
    return rows


def _named(problem: Problem, nodes: Collection[int]) -> str:
    ops = listed(tally(problem.op_types[node] for node in nodes), limit=UNPRICED_SHOWN)
    return f"{count(len(nodes), 'node')} ({ops})"


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


def shared_text(platform: Platform | None) -> str:
    """Return ``28 W (secondary) and 34 GB/s of memory (cpu, gpu; derived)``; empty of nothing."""
    told: list[str] = []
    if platform is not None and platform.power_w is not None:
        told.append(f"{platform.power_w:g} W ({platform.power_provenance[0]})")
    for memory in () if platform is None else platform.memories:
        devices = ", ".join(folded(memory.devices))
        told.append(
            f"{memory.bytes_per_s / GIGA:g} GB/s of memory ({devices}; {memory.provenance[0]})"
        )
    return plain(" and ".join(told))


def sustained_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return the line of a header that says within what devices are judged together."""
    shared = shared_text(problem.platform)
    if not shared:
        return [("sustained", "as fast as alone: the platform states nothing that devices share")]
    return [("sustained", f"devices that are busy at once share {shared}")]


def slower_text(problem: Problem, slower: Slower) -> str:
    """Return ``1.12x by power; by memory gpu 1.30x, dla 1.05x``."""
    parts = [f"{ratio(slower.power)} by power"] if slower.power > 1.0 else []
    drawn = [
        f"{name} {ratio(factor)}"
        for name, factor in zip(problem.devices, slower.memory, strict=True)
        if factor > 1.0
    ]
    parts += [f"by memory {', '.join(drawn)}"] if drawn else []
    return plain("; ".join(parts))


def measured_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return the lines that say what is measured; none where no profile was given."""
    if not problem.profiles:
        return []
    told = [_measured_share(name, problem.profiles[first[0]]) for name, first in _profiled(problem)]
    modelled = [name for name in problem.devices if name not in problem.profiles]
    if modelled:
        told.append(f"{', '.join(folded(modelled))}: modelled")
    rows = [("measured", "; ".join(told))]
    for name, first in _profiled(problem):
        rows += _of_profile(name, problem.profiles[first[0]])
    return rows


def _profiled(problem: Problem) -> list[tuple[str, list[str]]]:
    """Devices with profiles, numbered siblings of one profile as a range."""
    names = [name for name in problem.devices if name in problem.profiles]
    return [
        (name if same else each, [each])
        for name, run in fold_siblings(names)
        for same in [len({problem.profiles[one].profile.sha256 for one in run}) == 1]
        for each in (run[:1] if same else run)
    ]


def _measured_share(name: str, share: MeasuredShare) -> str:
    done = sum(share.measured)
    rest = "" if done == share.nodes else "; the rest modelled"
    return (
        f"{name}: {percent(share.share)} of its time, {done} of {count(share.nodes, 'node')}{rest}"
    )


def _of_profile(name: str, share: MeasuredShare) -> list[tuple[str, str]]:
    profile = share.profile
    used_s = share.by_name_s + share.by_place_s
    text = (
        f"{name}: {profile.format} {plain(profile.source)}, {count(profile.runs, 'run')}: "
        f"{profile.rule}; its kernels take {format_seconds(profile.total_s)}, "
        f"used {format_seconds(used_s)}"
    )
    if share.by_place_s > 0:
        text += f", {format_seconds(share.by_place_s)} of it matched by place"
    if len(profile.totals_s) > 1:
        low, high = min(profile.totals_s), max(profile.totals_s)
        text += f"; runs from {format_seconds(low)} to {format_seconds(high)}"
    if profile.between_s:
        text += f"; {format_seconds(profile.between_s)} a run outside of kernels is in no price"
    rows = [("profile", text)]
    if share.unmatched:
        rows.append(
            ("not matched", f"{name}: {format_seconds(share.unmatched_s)}: {_kernels(share)}")
        )
    apart = [
        f"{format_seconds(seconds)} {what}"
        for seconds, what in (
            (share.elsewhere_s, "by kernels of other units"),
            (share.moved_s, "by copies, for which links are priced"),
        )
        if seconds > 0
    ]
    if apart:
        rows.append(("not its own", f"{name}: {', '.join(apart)}"))
    return rows


def _kernels(share: MeasuredShare) -> str:
    shown = ", ".join(
        f"{plain(kernel.name[:KERNEL_NAME])} {format_seconds(kernel.seconds)} ({kernel.why})"
        for kernel in share.unmatched[:KERNELS_SHOWN]
    )
    more = len(share.unmatched) - KERNELS_SHOWN
    return f"{shown}, +{more} more" if more > 0 else shown
