"""Merge methods side by side on one question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf

from rich.console import RenderableType

from hetsim.core.text import Record, fields
from hetsim.core.units import format_bytes, format_seconds
from hetsim.partitioning.partition import Partition
from hetsim.problem.groups import owners
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.problem import Problem
from hetsim.problem.record import problem_record
from hetsim.reporting.tables.question import question
from hetsim.reporting.words.console import pairs, stack, table
from hetsim.reporting.words.text import count


@dataclass(frozen=True, slots=True)
class MethodRow:
    """One method's partition, and what making it took.

    Attributes
    ----------
    partition : Partition
    cut_tensors, cut_bytes : int
        Tensors that leave their group, each counted once, and their sizes.
    largest : int
        Nodes of the largest group.
    latency_s : float
        Of one request, on the virtual clock; inf where it does not fit the devices.
    cpu_s : float
        CPU seconds of the method.
    """

    partition: Partition
    cut_tensors: int
    cut_bytes: int
    largest: int
    latency_s: float
    cpu_s: float


def method_row(problem: Problem, partition: Partition, latency_s: float, cpu_s: float) -> MethodRow:
    """Measure the cuts of a partition. O(V + E)."""
    owner = owners(problem.n, partition.groups)
    cut = [
        value.nbytes
        for value in problem.values
        if value.producer != GRAPH_INPUT
        and any(owner[node] != owner[value.producer] for node in value.consumers)
    ]
    largest = max((len(group.nodes) for group in partition.groups), default=0)
    return MethodRow(partition, len(cut), sum(cut), largest, latency_s, cpu_s)


def methods_report(problem: Problem, rows: Sequence[MethodRow]) -> RenderableType:
    """Return one row a method, in the order given."""
    figures = "#groups", "#cut tensors", "#cut bytes", "#largest", "#latency", "#CPU time"
    made = table(
        ("|method", *figures, "note"),
        (
            (
                row.partition.method,
                str(len(row.partition.groups)),
                str(row.cut_tensors),
                format_bytes(row.cut_bytes),
                count(row.largest, "node"),
                "does not fit" if isinf(row.latency_s) else format_seconds(row.latency_s),
                format_seconds(row.cpu_s),
                row.partition.notes,
            )
            for row in rows
        ),
    )
    return stack(pairs(question(problem)), made)


def methods_record(problem: Problem, rows: Sequence[MethodRow]) -> Record:
    """Return the same as JSON, but for CPU time, which is another in every process."""
    return {
        "schema": "hetsim-methods/1",
        "problem": problem_record(problem),
        "methods": [
            {
                "method": row.partition.method,
                "groups": len(row.partition.groups),
                **fields(row, "cut_tensors cut_bytes largest_nodes=largest latency_s"),
                "notes": list(row.partition.notes),
            }
            for row in rows
        ],
    }
