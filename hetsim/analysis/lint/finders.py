"""Finders of the linter: each yields suspects of a plan with changes to try."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from hetsim.analysis.lint.suspects import Change, LintInput, Suspect, Target, targets_of
from hetsim.analysis.nodes.nodes import Nodes
from hetsim.analysis.nodes.nodes import nodes as facts_of
from hetsim.core.text import tally
from hetsim.core.units import format_bytes
from hetsim.cost.kernels.float_equivalent import model_figures
from hetsim.device.support.quantized import held_in, is_quantized
from hetsim.device.support.rules import Kind, cause_of, without_values
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.work import Work, graph_work
from hetsim.hardware.kernel_figures import INDEX
from hetsim.hardware.spec import FLOATS
from hetsim.hardware.variants import INT8, PRECISIONS
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.templates import Template


@dataclass(frozen=True, slots=True)
class SubgraphTransfers:
    """Transfers of one subgraph.

    - `work_s`, `dispatch_s`: seconds of its kernels; of starting it, including fetches, stores and
    conversions.
    - `reads`, `writes`: seconds of transfers from, and to, each device.
    - `reads_from`, `writes_to`: devices of subgraphs at the other ends, without inputs and outputs
    of the model.
    """

    group: int
    device: int
    nodes: tuple[int, ...]
    work_s: float
    dispatch_s: float
    reads: dict[int, float]
    writes: dict[int, float]
    reads_from: frozenset[int]
    writes_to: frozenset[int]

    @property
    def moves_s(self) -> float:
        """Seconds of all its transfers."""
        return sum(self.reads.values()) + sum(self.writes.values())


def borders_of(problem: Problem, template: Template) -> list[SubgraphTransfers]:
    """Return the borders of every subgraph, in the plan's order. O(V + transfers)."""
    count = template.groups
    reads: list[dict[int, float]] = [{} for _ in range(count)]
    writes: list[dict[int, float]] = [{} for _ in range(count)]
    reads_from: list[set[int]] = [set() for _ in range(count)]
    writes_to: list[set[int]] = [set() for _ in range(count)]
    for one in template.transfers:
        for reader in one.receivers:
            reads[reader][one.source] = reads[reader].get(one.source, 0.0) + one.seconds
            if one.group >= 0:
                reads_from[reader].add(one.source)
        if one.group >= 0:
            writes[one.group][one.target] = writes[one.group].get(one.target, 0.0) + one.seconds
            if one.receivers:
                writes_to[one.group].add(one.target)
    found: list[SubgraphTransfers] = []
    for at, group in enumerate(template.plan.groups):
        device = template.group_device[at]
        work_s = sum(s for _, s in problem.kernels(device, group.nodes))
        found.append(
            SubgraphTransfers(
                at, device, group.nodes, work_s, float(template.duration[at]) - work_s, reads[at],
                writes[at], frozenset(reads_from[at]), frozenset(writes_to[at]),
            )
        )  # fmt: skip
    return found


def elsewhere(
    problem: Problem, nodes: tuple[int, ...], device: int
) -> tuple[tuple[str, str], ...] | None:
    """Return pins of `nodes` to a device; None if it cannot run all of them."""
    if problem.unsupported(device, nodes):
        return None
    return tuple((problem.node_names[node], problem.devices[device]) for node in nodes)


def seconds_on(plan: Plan, devices: Collection[int], prices: Problem) -> float:
    """Return the seconds of kernels on `devices` per request, by the prices of `prices`.

    Nodes that cannot run there any more count as in the plan's own problem. O(V).
    """
    total = 0.0
    for share, replica in zip(plan.shares, plan.replicas, strict=True):
        for group in replica.groups:
            device = plan.problem.devices.index(group.device)
            if device in devices:
                taken = sum(s for _, s in prices.kernels(device, group.nodes))
                if not math.isfinite(taken):
                    taken = sum(s for _, s in plan.problem.kernels(device, group.nodes))
                total += share * taken
    return total / len(plan.period)


def saved_s(seen: LintInput, target: Target, change: Change) -> float | None:
    """Return the seconds of kernels on a target that a change saves per request.

    None without a plan, and if the change gives no valid problem.
    """
    if seen.plan is None or (changed := seen.after(change)) is None:
        return None
    here_s, there_s = (
        seconds_on(seen.plan, target.devices, prices) for prices in (seen.problem, changed)
    )
    return here_s - there_s


def links(seen: LintInput) -> Iterator[Suspect]:
    """Yield suspects: pairs of devices that the plan moves tensors between.

    The changes double the bandwidth of the links of the route.
    """
    problem = seen.problem
    moved: dict[tuple[int, int], float] = {}
    for template, share in zip(seen.templates, seen.shares, strict=True):
        for one in template.transfers:
            ends = (min(one.source, one.target), max(one.source, one.target))
            moved[ends] = moved.get(ends, 0.0) + share * one.seconds
    for (p, q), seconds in sorted(moved.items(), key=lambda item: (-item[1], item[0])):
        changes = wider(problem, p, q)
        if seconds > 0 and changes:
            a, b = problem.devices[p], problem.devices[q]
            yield Suspect(
                "link", f"{a} and {b}", f"transfers between {a} and {b}", (), seconds, changes
            )


def wider(problem: Problem, p: int, q: int) -> tuple[Change, ...]:
    """Return the change that doubles the bandwidth of the links between two devices, both ways."""
    names = _between(problem, p, q)
    if not names:
        return ()
    say = f"double the bandwidth of {', '.join(names)}"
    if problem.platform is None:
        return (Change(say, wider=names),)
    return (Change(say, what_if=tuple(f"link {name}.bandwidth x2" for name in names)),)


def _between(problem: Problem, p: int, q: int) -> tuple[str, ...]:
    """Return the links of the routes between two devices; without a platform, their resources."""
    ways = (problem.routes[p][q], problem.routes[q][p])
    if problem.platform is not None:
        return tuple(dict.fromkeys(name for way in ways for name in way.links))
    held = {at for way in ways for at in way.resources}
    return tuple(problem.link_names[at] for at in sorted(held))


MOST = 8
"""Number of subgraphs to try individually: those with the longest dispatch or transfers."""


def round_trips(seen: LintInput) -> Iterator[Suspect]:
    """Yield suspects: subgraphs that read from a device and write back to it, each and all.

    The changes pin them to that device, if it can run them, or double the bandwidth of the links
    between. O(V + E).
    """
    problem = seen.problem
    found: list[tuple[float, int, int, int, tuple[int, ...]]] = []
    for template in seen.templates:
        for border in borders_of(problem, template):
            for other in sorted(border.reads_from & border.writes_to):
                seconds = border.reads.get(other, 0.0) + border.writes.get(other, 0.0)
                found.append((seconds, border.group, other, border.device, border.nodes))
    found.sort(key=lambda entry: (-entry[0], *entry[1:4]))
    for seconds, group, other, device, nodes in found[:MOST]:
        there, here = problem.devices[other], problem.devices[device]
        pins = elsewhere(problem, nodes, other)
        changes = [] if pins is None else [Change(f"pin it to {there}", pins=pins)]
        changes += wider(problem, other, device)
        yield Suspect(
            "to-and-fro", f"{there} and {here}",
            f"g{group} goes from {there} to {here} and back", nodes, seconds, tuple(changes),
        )  # fmt: skip
    for other, device in sorted({(entry[2], entry[3]) for entry in found}):
        those = [entry for entry in found if (entry[2], entry[3]) == (other, device)]
        there, here = problem.devices[other], problem.devices[device]
        pinned = [elsewhere(problem, entry[4], other) for entry in those]
        pins = tuple(dict(pin for pins in pinned if pins for pin in pins).items())
        if len(those) > 1 and pins:
            yield Suspect(
                "to-and-fro", f"{there} and {here}",
                f"{len(those)} subgraphs go from {there} to {here} and back",
                tuple(sorted({node for entry in those for node in entry[4]})),
                sum(entry[0] for entry in those),
                (Change(f"pin those that {there} supports to it", pins=pins),),
            )  # fmt: skip


def tiny(seen: LintInput) -> Iterator[Suspect]:
    """Yield suspects: subgraphs whose dispatch and transfers cost more than their kernels.

    The changes pin its nodes to one of the devices that it reads from or writes to. O(V + E).
    """
    problem = seen.problem
    found: list[tuple[float, SubgraphTransfers, list[Change]]] = []
    for template in seen.templates:
        all_borders = borders_of(problem, template)
        for border in all_borders:
            overhead_s = border.dispatch_s + border.moves_s
            if len(all_borders) > 1 and overhead_s > border.work_s:
                changes = [
                    Change(f"pin it to {problem.devices[q]}", pins=pins)
                    for q in _neighbours(border)
                    if (pins := elsewhere(problem, border.nodes, q))
                ]
                found.append((overhead_s, border, changes))
    found.sort(key=lambda entry: (-entry[0], entry[1].group))
    for overhead_s, border, changes in found[:MOST]:
        if changes:
            here = problem.devices[border.device]
            yield Suspect(
                "tiny", here, f"g{border.group} on {here} takes longer to start than to run",
                border.nodes, overhead_s, tuple(changes),
            )  # fmt: skip
    firsts = [(border, changes[0]) for _, border, changes in found if changes]
    together = dict(pin for _, change in firsts for pin in change.pins)
    if len(found) > 1 and together:
        overheads_s = sum(overhead_s for overhead_s, _, _ in found)
        change = Change("pin each to a neighbour device", pins=tuple(together.items()))
        yield Suspect(
            "tiny", "", f"{len(found)} subgraphs take longer to start than to run",
            tuple(sorted({node for border, _ in firsts for node in border.nodes})), overheads_s,
            (change,),
        )  # fmt: skip


def _neighbours(border: SubgraphTransfers) -> tuple[int, ...]:
    """Return the neighbouring devices, in descending order of transfer seconds."""
    near = border.reads_from | border.writes_to
    return tuple(
        sorted(near, key=lambda q: (-border.reads.get(q, 0.0) - border.writes.get(q, 0.0), q))
    )


def precision(seen: LintInput) -> Iterator[Suspect]:
    """Yield suspects: devices with rates in another precision than they compute in.

    The changes price the model in each of them; accuracy is not considered.
    """
    problem = seen.problem
    if problem.platform is None or problem.model is None:
        return
    graph = problem.model.graph
    floats = [kind for kind in graph.dtypes.values() if kind in FLOATS]
    if not floats:
        return
    kind_of_model = max(FLOATS, key=floats.count)
    quantized = is_quantized(graph)
    for target in seen.targets:
        name = problem.devices[target.first]
        spec = problem.platform.devices[name]
        if name in problem.profiles:
            continue
        now = spec.executes or spec.execution_dtype.get(kind_of_model, kind_of_model)
        others = [
            kind
            for kind in PRECISIONS
            if kind in spec.flops_per_s
            and kind != now
            and (kind != INT8 or (spec.quantized and not quantized))
        ]
        changes = tuple(
            Change(
                f"run it in {kind} on {target.name}",
                execute=tuple((name, kind) for name in target.name.split(", ")),
            )
            for kind in others
        )
        if not changes:
            continue
        says = f"computes in {now}" if now in spec.flops_per_s else f"has no rate for {now}"
        cost_s, nodes = None, set[int]()
        if seen.plan is not None:
            saved = [one for change in changes if (one := saved_s(seen, target, change))]
            cost_s = max([0.0, *saved])
            nodes = {
                node
                for group in seen.plan.groups
                if problem.devices.index(group.device) in target.devices
                for node in group.nodes
            }
        yield Suspect(
            "precision", target.name, f"{target.name} {says}", tuple(sorted(nodes)), cost_s, changes
        )


_REMEDY: dict[Kind, str] = {
    "op": "support it on {device}",
    "attribute": "support it on {device}, or change the value in the model",
    "opset": "support it on {device}, or convert the model's operator set",
    "type": "support that type on {device}, or cast it in the model",
    "shape": "fix the shape, or support open shapes on {device}",
    "rank": "support it on {device}, or reshape to fewer dimensions",
    "size": "support it on {device}, or split the tensor",
    "other": "support it on {device}",
}


def refused(seen: LintInput) -> Iterator[Suspect]:
    """Yield suspects: reasons why a device cannot run nodes, each and all together.

    The change assumes that the device supports them, priced by its own cost model.
    """
    for target in seen.targets:
        yield from _of(seen, target)


def _of(seen: LintInput, target: Target) -> Iterator[Suspect]:
    problem = seen.problem
    away = np.flatnonzero(~problem.runnable[:, target.first]).tolist()
    if not away:
        return
    said = problem.refusals[target.first] if problem.refusals else {}
    tensors = problem.model.graph.tensors if problem.model is not None else {}
    causes: dict[tuple[Kind, str], list[int]] = {}
    for node in away:
        reason = said.get(node, "")
        kind, _ = cause_of(reason)
        _, text = cause_of(without_values(tensors, reason))
        # A reason in a device's own words may apply to many ops.
        text = f"{problem.op_types[node]}: {text}" if kind == "other" else text
        causes.setdefault((kind, text), []).append(node)
    name = problem.devices[target.first]
    told = None if seen.plan is None else facts_of(seen.plan, device=name)
    cost = {} if told is None else _costs(told)

    def costs(ids: list[int]) -> float | None:
        return None if told is None else sum(cost.get(node, 0.0) for node in ids)

    def takes(ids: list[int]) -> tuple[tuple[str, tuple[int, ...]], ...]:
        return tuple((problem.devices[p], tuple(ids)) for p in target.devices)

    named = [(kind, text, ids) for (kind, text), ids in causes.items() if kind != "lone"]
    for kind, text, ids in named:
        remedy = _REMEDY[kind].format(device=target.name)
        ops = ", ".join(tally(problem.op_types[node] for node in ids))
        what = text if kind in ("op", "other") else f"{text}: {ops}"
        yield Suspect(
            f"refused-{kind}", target.name, f"{target.name} cannot run {what}", tuple(ids),
            costs(ids), (Change(remedy, takes=takes(ids)),),
        )  # fmt: skip
    if len(causes) > 1:
        yield Suspect(
            "refused-all", target.name, f"{target.name} cannot run {len(away)} nodes in total",
            tuple(away), costs(away),
            (Change(f"support all of them on {target.name}", takes=takes(away)),),
        )  # fmt: skip


def _costs(told: Nodes) -> dict[int, float]:
    """Return the cost of each unsupported node on its present device, as a mean over replicas."""
    found: dict[int, float] = {}
    for node in told.nodes:
        if node.supposed and node.cost_s is not None:
            found[node.node] = found.get(node.node, 0.0) + node.cost_s / told.replicas
    return found


def split(seen: LintInput) -> Iterator[Suspect]:
    """Yield a suspect: a plan on several devices, which pins could put on one.

    Of identical devices the first is tried.
    """
    problem, plan = seen.problem, seen.plan
    if plan is None or len(plan.devices_used) < 2:
        return
    everything = tuple(range(problem.n))
    firsts = {target.first for target in targets_of(problem, None)}
    if problem.host is not None:
        firsts.add(problem.host)
    changes = tuple(
        Change(f"pin all of it to {problem.devices[p]}", pins=pins)
        for p in sorted(firsts)
        if (pins := elsewhere(problem, everything, p))
    )
    moves_s = sum(
        share * one.seconds
        for template, share in zip(seen.templates, seen.shares, strict=True)
        for one in template.transfers
    )
    used = plan.devices_used
    yield Suspect(
        "split", "", f"the plan is split over {len(used)} devices", everything, moves_s, changes
    )


_ON_CHIP = "weights_on_chip_mib"


def weights(seen: LintInput) -> Iterator[Suspect]:
    """Yield suspects: accelerators with more weights than on-chip memory.

    By the figures of its kernels, which apply to the whole model on the device. The change assumes
    a chip that holds the weights.
    """
    problem = seen.problem
    if problem.platform is None or problem.model is None or seen.plan is None:
        return
    graph = problem.model.graph
    works = graph_work(graph)
    for target in seen.targets:
        name = problem.devices[target.first]
        spec = problem.platform.devices[name]
        own = [node for node in graph.nodes if problem.runnable[node.id, target.first]]
        figures = model_figures(spec, graph, [works[node.id] for node in own])
        if spec.kind != "npu" or figures is None or name in problem.profiles:
            continue
        on_chip = figures.values[INDEX[_ON_CHIP]]
        held = sum(_held(works[node.id], held_in(spec, graph, node)) for node in own)
        if on_chip <= 0 or held <= on_chip:
            continue
        factor = math.ceil(held / on_chip)
        change = Change(
            f"enlarge the on-chip memory to {format_bytes(on_chip * factor)}",
            what_if=tuple(
                f"{problem.devices[p]}.kernels.{_ON_CHIP} x{factor}" for p in target.devices
            ),
        )
        streamed_s = saved_s(seen, target, change)
        if streamed_s is None:
            continue
        nodes = tuple(node.id for node in own if works[node.id].weight_bytes)
        yield Suspect(
            "weights", target.name,
            f"{target.name} holds {format_bytes(held)} of weights, but has "
            f"{format_bytes(on_chip)} of on-chip memory", nodes, streamed_s, (change,),
        )  # fmt: skip


def _held(work: Work, types: Mapping[str, str]) -> float:
    """Return the bytes of one node's weights on the device, with floats in these types."""
    wide = ITEM_BITS.get(work.dtype)
    if wide is None:
        return work.weight_bytes
    own = ITEM_BITS[types.get(work.dtype, work.dtype)]
    return work.integer_bytes + (work.weight_bytes - work.integer_bytes) * own / wide
