"""Record of a partition as plain data, the same for the same question.

Seconds and bytes; infinite figures are null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from hetsim.core.text import Record, plain, tally
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
    """Return a partition as plain data, with the user's names of the nodes in each group."""
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


COLOURS = ("#8dd3c7", "#fdb462", "#bebada", "#fb8072", "#80b1d3", "#b3de69", "#fccde5", "#ffed6f")
"""Colours by device, in the problem's order; further devices share them."""


def to_mermaid(problem: Problem, groups: Sequence[Group]) -> str:
    """Return the graph as a Mermaid flowchart, one subgraph per group, coloured by device."""
    lines = ["flowchart TD"]
    for index, group in enumerate(groups):
        lines.append(f'  subgraph g{index}["g{index} on {_mermaid(group.device)}"]')
        lines += [f'    n{node}["{_mermaid(_label(problem, node))}"]' for node in group.nodes]
        lines.append("  end")
    lines += [f"  n{u} --> n{v}" for u, v in problem.dag.edges()]
    for index, group in enumerate(groups):
        lines.append(f"  style g{index} fill:{_colour(problem, group.device)}")
    return "\n".join(lines) + "\n"


def to_dot(problem: Problem, groups: Sequence[Group]) -> str:
    """Return the graph in Graphviz's language, one cluster per group, coloured by device."""
    lines = [f"digraph {_quoted(problem.name)} {{", "  node [shape=box, style=filled];"]
    for index, group in enumerate(groups):
        title = _quoted(f"g{index} on {group.device}")
        lines.append(f"  subgraph cluster_{index} {{")
        lines.append(
            f'    label={title}; style=filled; fillcolor="{_colour(problem, group.device)}";'
        )
        lines += [f"    n{node} [label={_quoted(_label(problem, node))}];" for node in group.nodes]
        lines.append("  }")
    lines += [f"  n{u} -> n{v};" for u, v in problem.dag.edges()]
    return "\n".join([*lines, "}"]) + "\n"


def _label(problem: Problem, node: int) -> str:
    return f"{problem.op_types[node]}: {problem.node_names[node]}"


def _colour(problem: Problem, device: str) -> str:
    return COLOURS[problem.devices.index(device) % len(COLOURS)]


def _mermaid(text: str) -> str:
    # Mermaid reads markup and quotes inside labels; entities are its only escape.
    return "".join(
        char if char.isalnum() or char in " _-:./" else f"#{ord(char)};" for char in plain(text)
    )


def _quoted(text: str) -> str:
    return json.dumps(plain(text), ensure_ascii=False)
