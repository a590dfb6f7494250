"""Header of a report: model, platform, provenance of the times, and nodes without a price."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import exp
from statistics import median
from typing import TYPE_CHECKING

from hetsim.core.text import grouped, plain, tally
from hetsim.core.units import GIGA, format_seconds
from hetsim.hardware.kernel_figures import Basis
from hetsim.hardware.spec import Platform
from hetsim.problem.parts import Z80, Evidence, Floor, Measured, Slowdown
from hetsim.problem.problem import Problem
from hetsim.problem.record import uncounted
from hetsim.reporting.formatting import (
    count,
    fold_siblings,
    folded,
    listed,
    more_text,
    percent,
    ratio,
)

if TYPE_CHECKING:
    from hetsim.cost.profiles.prices import MeasuredShare
    from hetsim.graph.model import Model


UNPRICED_SHOWN = 3
"""Maximum number of op types and reasons listed of nodes without a price; the JSON has all."""

WAYS_SHOWN = 2
"""Maximum number of nodes of control flow that a header names."""

KERNELS_SHOWN = 3
"""Maximum number of unmatched kernels that are listed; the problem's record has all."""

KERNEL_NAME = 40
"""Maximum number of characters of a kernel's name that are shown."""


def question(problem: Problem) -> list[tuple[str, str]]:
    """Return lines on the model, the platform, and the provenance of its times."""
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
    host = "" if problem.host is None else f"; host {problem.devices[problem.host]}"
    links = {"fifo": "", "none": "; links have no contention"}
    rows.append(
        (
            "platform",
            f"{platform.name if platform is not None else 'given as arrays'}: "
            f"{', '.join(folded(problem.devices))}{host}{links[problem.contention]}",
        )
    )
    rows += figures_rows(problem)
    if problem.pessimistic:
        rows.append(("pessimistic", "all times are at the upper end of their 80 % interval"))
    return [
        *rows,
        *([("priced as", as_if(problem.executed))] if problem.executed else []),
        *taken_off_rows(problem),
        *_runtime_rows(problem),
        *measured_rows(problem),
        *unpriced_rows(problem),
    ]


def shape_rows(model: Model) -> list[tuple[str, str]]:
    """Return lines on a graph that was not optimised, and on measured shapes and branches."""
    rows = []
    if model.unoptimised is not None:
        rows.append(("graph", f"not optimised: {model.unoptimised}"))
    seen = model.observed
    if seen is None:
        return rows
    by_data = sum(model.graph.tensors[name].measured for name in seen.shapes)
    others = len(seen.shapes) - by_data
    parts = []
    if by_data:
        parts.append(f"{by_data} depend on the input data")
    if others:
        parts.append(f"{others} are unknown to shape inference")
    if parts:
        rows.append(("shapes", f"measured by a run with {seen.source}: {'; '.join(parts)}"))
    ways = [
        f"{turns:g} turn{'s' * (turns != 1)} of {path}"
        for path, turns in seen.trips.items()
        if "/" not in path
    ]
    if seen.given:
        ways += [f"{to} of {path}" for path, to in seen.branches.items() if "/" not in path]
    if ways:
        shown = ", ".join(ways[:WAYS_SHOWN])
        shown = more_text(shown, len(ways) - WAYS_SHOWN)
        rows.append(("control flow", f"as in a run with {seen.source}: {shown}"))
    return [(name, plain(text)) for name, text in rows]


def as_if(executed: Mapping[str, str]) -> str:
    """Return the precisions that prices assume: ``int8 on npu, float16 on gpu.0-7``."""
    by_precision = grouped((precision, device) for device, precision in executed.items())
    told = [f"{kind} on {', '.join(folded(names))}" for kind, names in by_precision.items()]
    return f"{', '.join(told)}; transfers keep the model's own types"


def taken_off_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return a line on conversions that compilers leave to the host."""
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
        ("host runs", f"{what} at the model's ends, which the compiler of {names} leaves to it")
    ]


def named_as_if(name: str, precision: str | None) -> str:
    """Return the name of a device with the precision its times assume: ``npu, as if int8``."""
    return name if precision is None else f"{name}, as if {precision}"


def unpriced_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return lines on nodes without a price, and on nodes whose cost depends on the input data."""
    rows: list[tuple[str, str]] = []
    if problem.unpriced:
        reasons = tally(problem.unpriced.values())
        whys = "; ".join(plain(why) for why in list(reasons)[:UNPRICED_SHOWN])
        whys = more_text(whys, len(reasons) - UNPRICED_SHOWN, "; ")
        rows.append(("not priced", f"{_named(problem, problem.unpriced)}: {whys}"))
    if problem.unsized:
        whys = "; ".join(plain(why) for why in tally(problem.unsized.values()))
        rows.append(("by FLOP", f"{_named(problem, problem.unsized)}: {whys}"))
    if kinds := uncounted(problem):
        what = f"{count(len(kinds), 'value')} ({listed(tally(kinds.values()))})"
        rows.append(("not counted", f"bytes of {what}, known only in a run"))
    decided = [node for node in problem.least_s if node not in problem.unpriced]
    if decided:
        counted = "plans count the costliest branch and the turns of a run, bounds the least"
        rows.append(("data-driven", f"{_named(problem, decided)}: {counted}"))
    return rows


def _named(problem: Problem, nodes: Collection[int]) -> str:
    ops = listed(tally(problem.op_types[node] for node in nodes), limit=UNPRICED_SHOWN)
    return f"{count(len(nodes), 'node')} ({ops})"


def figures_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return lines on changes assumed for the platform, and on its least certain times."""
    if problem.platform is None:
        return []
    supposed = problem.platform.supposed
    rows = [] if supposed is None else [("what if", plain(str(supposed)))]
    return [*rows, ("figures", figures_text(problem.evidence, problem.link_evidence))]


def figures_text(devices: Sequence[Evidence], links: Sequence[Evidence]) -> str:
    """Return ``least certain: npu, int8 times derived from similar chips, 80 % within 2.2x``."""
    found = evidence_lines(devices, links)
    if not found:
        return "none"
    name, text, within = max(found, key=lambda one: one[2])
    return plain(f"least certain: {name}, {text}, {within_text(within)}")


def evidence_lines(
    devices: Sequence[Evidence], links: Sequence[Evidence]
) -> list[tuple[str, str, float]]:
    """Return names, provenance of times, and the factor that 80 % of times are within.

    Devices and links with the same provenance share a line.
    """
    found: list[tuple[str, str, float]] = []
    for prefix, those in (("", devices), ("links ", links)):
        alike = grouped(
            ((evidence_text(one), exp(Z80 * one.sd)), one.of if prefix else one.name)
            for one in those
        )
        for told, names in alike.items():
            each = ", ".join(folded(dict.fromkeys(names)))
            named = "links" if prefix and len(alike) == 1 else prefix + each
            found.append((named, *told))
    return found


STATUSES = {
    "measured": "measured on the device",
    "datasheet": "from the datasheet",
    "fitted": "fitted to published measurements",
    "secondary": "from secondary sources",
    "derived": "derived from other figures",
    "prior": "derived from similar chips",
    "estimate": "estimated",
    "what if": "assumed",
}
"""Meaning of the status of a figure."""


MEASUREMENTS_SHOWN = 4
"""Measurements whose errors are listed one by one."""


def evidence_text(one: Evidence) -> str:
    """Return the provenance of the times of one device or link."""
    told = STATUSES[one.status]
    if one.status == "derived" and one.precision:
        told = f"times derived from {one.precision} figures"
    elif one.precision:
        told = f"{one.precision} times {told}"
    if one.before:
        told += f", otherwise {STATUSES[one.before]}"
    notes: list[str] = []
    if one.error is not None:
        known = one.likely is not None and one.likely.same
        told += f" of {count(one.error.networks, 'network')}"
        notes.append(f"median error {percent(one.error.median_of(known))}")
    if one.measured_here is None:
        notes += [floor_text(floor, one.basis) for floor in one.floors]
    if notes:
        told += f" ({'; '.join(notes)})"
    if one.measured > 0 and one.status != "measured":
        told = f"{percent(one.measured)} measured by a profile, the rest {told}"
    if one.measured_here is not None:
        told += ", corrected by your measurements"
    return told


FLOORS = {
    "batch": "no such batch size measured",
    "unlike": "no network like it measured",
    "peaks": "a peak that may count sparse weights or int4",
}
"""Text of each reason for a floor on the uncertainty, except those with a number."""


def floor_text(floor: Floor, basis: Basis | None) -> str:
    """Return ``figures of one source: within 1.47x``."""
    reason = FLOORS.get(floor.reason, "")
    if basis is not None and floor.reason == "sources":
        sources = (basis.device or basis.family).sources
        reason = f"figures of {'one source' if sources == 1 else count(sources, 'source')}"
    elif basis is not None and floor.reason == "dies":
        reason = f"a family of {count(basis.family.dies, 'die')}"
    return f"{reason}: {within_text(exp(Z80 * floor.sd)).removeprefix('80 % ')}"


def measured_here_text(here: Measured) -> str:
    """Return ``2 networks, factor 1.31; left out one by one: off by 8 % and 12 %``."""
    told = f"{count(here.networks, 'network')}, factor {here.factor:.2f}"
    if len(here.left_out) > MEASUREMENTS_SHOWN:
        off = [abs(1.0 / ratio - 1.0) for ratio in here.left_out]
        return f"{told}; left out one by one: off by {percent(median(off))} in the median"
    each = [percent(abs(1.0 / ratio - 1.0)) for ratio in here.left_out]
    if each:
        told += f"; left out one by one: off by {', '.join(each[:-1])} and {each[-1]}"
    return told


def within_text(factor: float) -> str:
    """Return ``80 % within 2.2x``."""
    return f"80 % within {factor:.{1 if factor >= 2 else 2}f}x"


def shared_text(platform: Platform | None) -> str:
    """Return ``28 W (secondary) and 34 GB/s of memory (cpu, gpu; derived)``, or an empty text."""
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
    """Return a line on the power and memory bandwidth that busy devices share."""
    shared = shared_text(problem.platform)
    if not shared:
        return [("sustained", "no slowdown: the platform states no shared power or memory limit")]
    return [("sustained", f"devices that are busy at the same time share {shared}")]


def slower_text(problem: Problem, slower: Slowdown) -> str:
    """Return ``1.12x by the power limit; by shared memory gpu 1.30x, dla 1.05x``."""
    parts = [f"{ratio(slower.power)} by the power limit"] if slower.power > 1.0 else []
    slowed = [
        f"{name} {ratio(factor)}"
        for name, factor in zip(problem.devices, slower.memory, strict=True)
        if factor > 1.0
    ]
    parts += [f"by shared memory {', '.join(slowed)}"] if slowed else []
    return plain("; ".join(parts))


def _runtime_rows(problem: Problem) -> list[tuple[str, str]]:
    """Lines on devices with a runtime other than the measured one."""
    devices = {} if problem.platform is None else problem.platform.devices
    told = {
        one.name: one.runtime
        for one in problem.evidence
        if one.name in devices
        and any(kernels.factor is not None for kernels in devices[one.name].kernels.values())
    }
    return [
        ("runtime", f"{name}: {told[first[0]]}") for name, first in _alike(told, problem.devices)
    ]


def measured_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return lines on the user's measurements: profiles of devices, or other networks."""
    rows = [
        ("measured by you", f"{name}: {measured_here_text(problem.measured[first[0]])}")
        for name, first in _alike(problem.measured, problem.devices)
    ]
    return [*_profile_rows(problem), *rows]


def _profile_rows(problem: Problem) -> list[tuple[str, str]]:
    if not problem.profiles:
        return []
    digests = {name: share.profile.sha256 for name, share in problem.profiles.items()}
    shares = [(name, problem.profiles[one]) for name, [one] in _alike(digests, problem.devices)]
    told = [_measured_share(name, share) for name, share in shares]
    modelled = [name for name in problem.devices if name not in problem.profiles]
    if modelled:
        told.append(f"{', '.join(folded(modelled))}: modelled")
    rows = [("measured", "; ".join(told))]
    for name, share in shares:
        rows += _of_profile(name, share)
    return rows


def _alike(known: Mapping[str, object], devices: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Entries of `known` by devices; numbered siblings with the same entry form a range."""
    return [
        (name if same else each, [each])
        for name, run in fold_siblings([name for name in devices if name in known])
        for same in [all(known[one] == known[run[0]] for one in run)]
        for each in (run[:1] if same else run)
    ]


def _measured_share(name: str, share: MeasuredShare) -> str:
    done = sum(share.measured)
    return f"{name}: {percent(share.share)} of its time, {done} of {count(share.nodes, 'node')}"


def _of_profile(name: str, share: MeasuredShare) -> list[tuple[str, str]]:
    profile = share.profile
    used_s = share.by_name_s + share.by_place_s
    text = (
        f"{name}: {profile.format} {plain(profile.source)}, {count(profile.runs, 'run')}: "
        f"{profile.rule}; its kernels take {format_seconds(profile.total_s)}, "
        f"used {format_seconds(used_s)}"
    )
    if share.by_place_s > 0:
        text += f", of which {format_seconds(share.by_place_s)} is matched by position"
    if len(profile.totals_s) > 1:
        low, high = min(profile.totals_s), max(profile.totals_s)
        text += f"; runs take {format_seconds(low)} to {format_seconds(high)}"
    if profile.between_s:
        text += f"; prices leave out {format_seconds(profile.between_s)} a run between kernels"
    rows = [("profile", text)]
    if share.unmatched:
        rows.append(
            ("not matched", f"{name}: {format_seconds(share.unmatched_s)}: {_kernels(share)}")
        )
    apart = [
        f"{format_seconds(seconds)} {what}"
        for seconds, what in (
            (share.elsewhere_s, "in kernels of other devices"),
            (share.moved_s, "in copies, which links are priced for"),
        )
        if seconds > 0
    ]
    if apart:
        rows.append(("left out", f"{name}: {', '.join(apart)}"))
    return rows


def _kernels(share: MeasuredShare) -> str:
    shown = ", ".join(
        f"{plain(kernel.name[:KERNEL_NAME])} {format_seconds(kernel.seconds)} ({kernel.why})"
        for kernel in share.unmatched[:KERNELS_SHOWN]
    )
    return more_text(shown, len(share.unmatched) - KERNELS_SHOWN)
