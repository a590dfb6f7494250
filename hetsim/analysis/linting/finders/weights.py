"""Weights that do not stay on an accelerator's chip, and are read again at every run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from hetsim.analysis.linting.change import Change
from hetsim.analysis.linting.finders.kernels import seconds_on
from hetsim.analysis.linting.seen import Seen, Suspect
from hetsim.base.units import format_bytes
from hetsim.cost.kernels.chosen import model_figures
from hetsim.device.support.executed import held_in
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.work import Work, graph_work
from hetsim.hardware.kernel_figures import INDEX

KIND = "weights"
_ON_CHIP = "weights_on_chip_mib"


def weights(seen: Seen) -> Iterator[Suspect]:
    """Yield a suspect for each accelerator that takes more weights than stay on its chip.

    By the figures of its kernels, which count over all that it takes of the model. The change
    supposes a chip that holds them.
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
            f"{format_bytes(on_chip * factor)} of weights stay on the chip",
            what_if=tuple(
                f"{problem.devices[p]}.kernels.{_ON_CHIP} x{factor}" for p in target.devices
            ),
        )
        changed = seen.after(change)
        if changed is None:
            continue
        streamed_s = seconds_on(seen.plan, target.devices, problem) - seconds_on(
            seen.plan, target.devices, changed
        )
        nodes = tuple(node.id for node in own if works[node.id].weight_bytes)
        yield Suspect(
            KIND, target.name,
            f"{target.name}: {format_bytes(held)} of weights, of which {format_bytes(on_chip)} "
            "stay on the chip", nodes, streamed_s, (change,),
        )  # fmt: skip


def _held(work: Work, types: Mapping[str, str]) -> float:
    """Bytes of the weights of one node as the device holds them: floats in these types."""
    wide = ITEM_BITS.get(work.dtype)
    if wide is None:
        return work.weight_bytes
    own = ITEM_BITS[types.get(work.dtype, work.dtype)]
    return work.integer_bytes + (work.weight_bytes - work.integer_bytes) * own / wide
