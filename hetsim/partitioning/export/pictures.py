"""Pictures of a partition as text: Mermaid and DOT."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hetsim.core.text import plain
from hetsim.problem.groups import Group
from hetsim.problem.problem import Problem

COLOURS = ("#8dd3c7", "#fdb462", "#bebada", "#fb8072", "#80b1d3", "#b3de69", "#fccde5", "#ffed6f")
"""One a device, in the problem's order; more devices than colours share them."""


def to_mermaid(problem: Problem, groups: Sequence[Group]) -> str:
    """Return the graph as a Mermaid flowchart, one subgraph a group, coloured by device."""
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
    """Return the graph in Graphviz's language, one cluster a group, coloured by device."""
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
