"""Partition: groups in execution order, and queries about them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hetsim.core import checks
from hetsim.core.result import Result
from hetsim.core.text import to_json
from hetsim.partitioning.borders import Border, borders, boundary_values, explain, node_named
from hetsim.partitioning.record import partition_record, to_dot, to_mermaid
from hetsim.problem.groups import Group
from hetsim.problem.parts import Value
from hetsim.problem.problem import Problem
from hetsim.problem.validator import check

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, slots=True, repr=False)
class Partition(Result):
    """Groups in execution order that cover every node once.

    Attributes
    ----------
    groups : tuple of Group
    method : str
        Merge method that produced it.
    notes : tuple of str
        Notes for the user: repairs or early ends of a published method, and composites that their
        devices did not get.
    left : mapping of int to str
        Reason why a node was left to the default device, the last of the priority; empty without
        one.
    problem : Problem
        Problem that was partitioned.
    withdrawn : mapping of (int, int) to str
        Reason why a device did not get a node that it supports: a pin, an exclusion or a size.
    """

    groups: tuple[Group, ...]
    method: str
    notes: tuple[str, ...]
    left: Mapping[int, str]
    problem: Problem = field(repr=False, compare=False)
    withdrawn: Mapping[tuple[int, int], str] = field(
        default_factory=dict, repr=False, compare=False
    )

    def validate(self) -> None:
        """Raise PartitionError if a group breaks a rule of partitions. O(V + E)."""
        check(self.problem, self.groups, where=f"method '{self.method}'")

    @property
    def borders(self) -> tuple[Border, ...]:
        """Values that each group reads from outside and outputs."""
        return borders(self.problem, self.groups)

    @property
    def boundary(self) -> tuple[Value, ...]:
        """Tensors produced by one group and read by another, in order of production. O(V + E)."""
        return tuple(self.problem.values[v] for v in boundary_values(self.problem, self.groups))

    @property
    def boundary_bytes(self) -> int:
        """Bytes of the `boundary`, each tensor once."""
        return sum(value.nbytes for value in self.boundary)

    def explain(self, u: str | int, v: str | int) -> str:
        """Explain why two nodes, by name or id, are in one group or in two.

        If a merge would close a cycle, the path that forbids it is named. Raises UsageError for an
        unknown node. O(V + E).
        """
        a, b = (node_named(self.problem, node) for node in (u, v))
        return explain(self.problem, self.groups, a, b, self.left, self.withdrawn)

    def to_json(self) -> str:
        """Return the partition as JSON text, the same for the same question in any process."""
        record = partition_record(self.problem, self.groups, self.method, self.notes, self.left)
        return to_json(record)

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart, one subgraph per group, coloured by device."""
        return to_mermaid(self.problem, self.groups)

    def to_dot(self) -> str:
        """Return the graph in Graphviz's language, one cluster per group, coloured by device."""
        return to_dot(self.problem, self.groups)

    def to_onnx(self) -> onnx.ModelProto:
        """Return the model with every group as a model-local function named after its device.

        See ``onnx_export.to_functions``; ``onnx_export.save`` writes it with its weights.
        """
        from hetsim.partitioning.onnx_export import to_functions

        return to_functions(self.problem, self.groups)

    def to_models(self) -> tuple[onnx.ModelProto, ...]:
        """Return every group as a model of its own; see ``onnx_export.to_models``."""
        from hetsim.partitioning.onnx_export import to_models

        return to_models(self.problem, self.groups)

    def to_annotated(self) -> onnx.ModelProto:
        """Return the model with each node's device annotated; see ``onnx_export.to_annotated``."""
        from hetsim.partitioning.onnx_export import to_annotated

        return to_annotated(self.problem, self.groups)

    @checks.takes(folder=checks.path)
    def save_onnx(self, folder: str | os.PathLike[str]) -> tuple[str, ...]:
        """Write the split model, the annotated one and one per group; see ``onnx_export.save_all``.

        Returns the names of the files.
        """
        from hetsim.partitioning.onnx_export import save_all

        return tuple(save_all(self.problem, self.groups, Path(folder)))
