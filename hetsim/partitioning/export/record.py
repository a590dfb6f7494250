"""A partition as a plain record: the same for the same question.

Seconds and bytes; a figure that is infinite is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetsim.core.text import Record, tally
from hetsim.partitioning.borders import borders, boundary_values, crossings, memory_bytes
from hetsim.problem.groups import Group
from hetsim.problem.problem import Problem
from hetsim.problem.record import problem_record


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
                "memory_bytes": problem.held_bytes(
                    problem.devices.index(group.device), memory_bytes(problem, group.nodes)
                ),
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
