"""Facts of each node: devices that support it, its device in a plan, times and transfers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from hetsim.graph.model import FileNode
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

Takes = Literal["alone", "within", "no"]
"""Support of a node on a device: individually; only within a pattern or quantized unit that it
takes whole; or not at all."""

CHOICE = "the plan's choice"
"""Reason for a node elsewhere that its preferred device supports."""


@dataclass(frozen=True, slots=True)
class OnDevice:
    """Support and time of a node on one device.

    - `seconds`: seconds, or its share of a kernel of several nodes, if whole; None if unsupported.
    - `reason`: reason why it does not support the node individually; ``""`` if it does.
    """

    device: str
    takes: Takes
    seconds: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Node of the canonical model, in one replica of a plan.

    - `origins`: its nodes in the file.
    - `devices`: devices in the problem's order.
    - `preferred`: requested device, else the fastest for the node; of equal ones the plan's, then
    the first. None if none supports it.
    - `preferred_s`: its share of a kernel there, or the estimate of the device's cost model if
    `supposed`; None if unknown.
    - `supposed`: whether the preferred device does not support it.
    - `device`: device in the plan; None without a plan, like all that follow.
    - `group`, `kernel`: indices into ``Facts.groups`` and ``Facts.kernels``.
    - `seconds`: its share of that kernel, by the members' own times; shares sum to the kernel's
    time.
    - `moves_s`, `moved_bytes`: its share of transfers charged to it, if not on its preferred
    device: every transfer that such nodes write or read, in equal parts.
    """

    node: int
    name: str
    op: str
    origins: tuple[str, ...]
    outputs: tuple[str, ...]
    devices: tuple[OnDevice, ...]
    preferred: str | None
    preferred_s: float | None
    supposed: bool
    replica: int = 0
    device: str | None = None
    group: int | None = None
    kernel: int | None = None
    seconds: float | None = None
    moves_s: float = 0.0
    moved_bytes: float = 0.0

    @property
    def falls_back(self) -> bool:
        """Whether a plan runs it elsewhere than on its preferred device."""
        return self.device is not None and self.preferred not in (None, self.device)

    @property
    def cost_s(self) -> float | None:
        """Extra seconds over the preferred device, with transfers.

        0 on the preferred device; None without a plan, or if its time on the preferred device is
        unknown. Negative if that is slower. Other nodes are assumed to stay, without waiting: for
        replanned results use the linter.
        """
        if self.seconds is None:
            return None
        if not self.falls_back:
            return 0.0
        if self.preferred_s is None:
            return None
        return self.seconds - self.preferred_s + self.moves_s

    @property
    def able(self) -> tuple[str, ...]:
        """Devices that support it, individually or within a kernel."""
        return tuple(one.device for one in self.devices if one.takes != "no")

    @property
    def why(self) -> str:
        """Reason why it is not on its preferred device; ``""`` if it is, or without a plan.

        Without a plan, the reason why the requested device does not support it.
        """
        if not (self.falls_back or (self.device is None and self.supposed)):
            return ""
        said = next(one for one in self.devices if one.device == self.preferred)
        if said.takes == "no":
            return said.reason
        return f"{CHOICE}: {said.device} takes it, too"


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """Kernel of a plan: one node or several fused ones.

    - `pattern`: pattern or unit that it implements; ``""`` for one node, or a fusion.
    """

    group: int
    nodes: tuple[int, ...]
    seconds: float
    pattern: str


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Subgraph of a plan, with the components of its time.

    - `dispatch_s`: seconds to start it once.
    - `staged_s`: seconds of fetching, storing or converting tensors.
    - `seconds`: seconds on the clock: dispatch, staging and kernels.
    """

    replica: int
    device: str
    nodes: tuple[int, ...]
    dispatch_s: float
    staged_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class TensorMove:
    """Transfer of one tensor in a plan.

    - `seconds`: seconds of the transfer alone on idle links.
    - `charged`: nodes off their preferred device that write or read it there, each charged an equal
    part. Empty if all are on their preferred device.
    """

    replica: int
    tensor: str
    source: str
    target: str
    nbytes: int
    seconds: float
    charged: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Facts:
    """Facts of all nodes of a problem or plan.

    - `nodes`: facts in graph order, replica after replica.
    - `groups`, `kernels`, `moved`: components of the plan's time; empty without one.
    """

    problem: Problem = field(repr=False)
    plan: Plan | None = field(repr=False)
    wanted: str | None
    nodes: tuple[NodeFacts, ...] = field(repr=False)
    groups: tuple[GroupFacts, ...] = field(default=(), repr=False)
    kernels: tuple[KernelFacts, ...] = field(default=(), repr=False)
    moved: tuple[TensorMove, ...] = field(default=(), repr=False)

    @property
    def replicas(self) -> int:
        """Number of replicas of the plan; 1 without a plan."""
        return 1 if self.plan is None else len(self.plan.replicas)

    @cached_property
    def file_nodes(self) -> tuple[FileNode, ...]:
        """Nodes of the file; for a problem made from arrays, its own."""
        if self.problem.model is not None:
            return self.problem.model.file_nodes
        mine = self.nodes[: self.problem.n]
        return tuple(FileNode(node.name, node.op, node.outputs) for node in mine)

    @cached_property
    def standing_for(self) -> Mapping[str, tuple[NodeFacts, ...]]:
        """Canonical nodes by node of the file, over all replicas; empty if it was folded."""
        found: dict[str, list[NodeFacts]] = {node.name: [] for node in self.file_nodes}
        for node in self.nodes:
            for name in node.origins:
                found[name].append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}
