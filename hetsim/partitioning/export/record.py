"""A partition and its problem as plain records: the same for the same question.

Seconds and bytes; a figure that is infinite is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hetsim.base.text import Record, tally
from hetsim.partitioning.groups import Group
from hetsim.partitioning.views import borders, boundary_values, crossings, memory_bytes
from hetsim.problem.problem import Problem

if TYPE_CHECKING:
    from hetsim.graph.model import Model


def seen_record(model: Model) -> Record | None:
    """Return what a run of the model was for: on which inputs, how many shapes it measured."""
    seen = model.observed
    if seen is None:
        return None
    return {
        "source": seen.source,
        "measured_shapes": len(seen.shapes),
        "shapes_by_data": sum(model.graph.tensors[name].measured for name in seen.shapes),
        "branches": dict(sorted(seen.branches.items())),
        "trips": dict(sorted(seen.trips.items())),
    }


def problem_record(problem: Problem) -> Record:
    """Return what was asked: model, platform, devices, and the links' behaviour."""
    model, platform = problem.model, problem.platform
    return {
        "name": problem.name,
        "fingerprint": problem.fingerprint,
        "model": None
        if model is None
        else {
            "name": model.name,
            "source": model.source,
            "sha256": model.sha256,
            "canonical": model.canonical,
            "dims": dict(sorted(model.dims.items())),
            "shapes": {name: list(shape) for name, shape in sorted(model.shapes.items())},
            "frozen": sorted(model.frozen),
            "observed": seen_record(model),
        },
        "platform": None
        if platform is None
        else {"name": platform.name, "source": platform.source, "sha256": platform.sha256},
        "nodes": problem.n,
        "devices": list(problem.devices),
        "host": None if problem.host is None else problem.devices[problem.host],
        "contention": problem.contention,
        "unpriced": unpriced_record(problem),
    }


def unpriced_record(problem: Problem) -> dict[str, str]:
    """Return the nodes that are not priced, and why, by name."""
    return {problem.node_names[node]: why for node, why in sorted(problem.unpriced.items())}


def partition_record(
    problem: Problem,
    groups: Sequence[Group],
    method: str,
    notes: Sequence[str],
    left: Mapping[int, str],
) -> Record:
    """Return what a partition holds, with the user's names of the nodes in each group."""
    exchanged = crossings(problem, groups)
    crossed = [problem.values[index] for index in boundary_values(problem, groups)]
    named = [value.name for value in problem.values]
    borders_of = borders(problem, groups)
    return {
        "schema": "hetsim-partition/1",
        "problem": problem_record(problem),
        "method": method,
        "notes": list(notes),
        "left": {problem.node_names[node]: why for node, why in left.items()},
        "boundary": [{"tensor": value.name, "nbytes": value.nbytes} for value in crossed],
        "boundary_bytes": sum(value.nbytes for value in crossed),
        "groups": [
            {
                "id": index,
                "device": group.device,
                "inputs": [named[at] for at in borders_of[index].inputs],
                "outputs": [named[at] for at in borders_of[index].outputs],
                "constants": [problem.constants[at].name for at in borders_of[index].constants],
                "memory_bytes": memory_bytes(problem, group.nodes),
                "seconds": problem.group_seconds(problem.devices.index(group.device), group.nodes),
                "receives_bytes": crossing.receives_bytes,
                "sends_bytes": crossing.sends_bytes,
                "ops": tally(problem.op_types[node] for node in group.nodes),
                "nodes": [problem.node_names[node] for node in group.nodes],
                "origins": list(
                    dict.fromkeys(name for node in group.nodes for name in problem.origins[node])
                ),
            }
            for index, (group, crossing) in enumerate(zip(groups, exchanged, strict=True))
        ],
    }
