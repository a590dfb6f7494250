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
"""A device takes a node by itself; only within a pattern or a quantized unit that it takes whole;
or not at all."""

CHOICE = "the plan's choice"
"""Why a node is elsewhere that its preferred device takes."""


@dataclass(frozen=True, slots=True)
class OnDevice:
    """Support and time of a node on one device.

    Attributes
    ----------
    device : str
    takes : "alone", "within" or "no"
    seconds : float or None
        Of a kernel of several nodes its share, where that kernel is whole; None where it does
        not take the node.
    reason : str
        Why it does not take the node alone; ``""`` where it does.
    """

    device: str
    takes: Takes
    seconds: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node of the canonical model, in one replica of a plan.

    Attributes
    ----------
    node : int
    name, op : str
    origins : tuple of str
        The nodes of the file that it stands for.
    outputs : tuple of str
        Tensors that it writes.
    devices : tuple of OnDevice
        In the problem's order.
    preferred : str or None
        The device that was asked for, else the one that takes the node in the least time; of
        equal ones the plan's, then the first. None where none takes it.
    preferred_s : float or None
        Its share of a kernel there, or what the device's cost model says where `supposed`; None
        where nothing is known of it.
    supposed : bool
        Whether the preferred device does not take it.
    replica : int
    device : str or None
        Where the plan runs it; None without a plan, as all that follows.
    group, kernel : int or None
        Indices into ``Facts.groups`` and ``Facts.kernels``.
    seconds : float or None
        Its share of that kernel: by the members' own times, which add up to the kernel's.
    moves_s, moved_bytes : float, int
        Its share of the transfers that are charged to it, where it is not on its preferred
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
        """Whether a plan has it elsewhere than on its preferred device."""
        return self.device is not None and self.preferred not in (None, self.device)

    @property
    def cost_s(self) -> float | None:
        """Extra seconds over the preferred device, with transfers.

        0 on the preferred device; None without a plan, or where nothing is known of the time on
        the preferred one. Below 0 where that is the slower one. Other nodes are taken to stay
        where they are, and nothing to wait for anything: what planning anew gives, the linter
        says.
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
        """The devices that take it, alone or within a kernel."""
        return tuple(one.device for one in self.devices if one.takes != "no")

    @property
    def why(self) -> str:
        """Why it is not on its preferred device; ``""`` where it is, or there is no plan.

        Without a plan, why the device that was asked for does not take it.
        """
        if not (self.falls_back or (self.device is None and self.supposed)):
            return ""
        said = next(one for one in self.devices if one.device == self.preferred)
        if said.takes == "no":
            return said.reason
        return f"{CHOICE}: {said.device} takes it, too"


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """A kernel of a plan: one node or several fused ones.

    Attributes
    ----------
    group : int
    nodes : tuple of int
    seconds : float
    pattern : str
        The pattern or unit that it stands for; ``""`` for one node, or a fusion.
    """

    group: int
    nodes: tuple[int, ...]
    seconds: float
    pattern: str


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A subgraph of a plan, and the parts of its time.

    Attributes
    ----------
    replica : int
    device : str
    nodes : tuple of int
    dispatch_s : float
        Of starting it, once.
    staged_s : float
        Of fetching and storing tensors, or of converting them.
    seconds : float
        As the clock has it: dispatch, staging and kernels.
    """

    replica: int
    device: str
    nodes: tuple[int, ...]
    dispatch_s: float
    staged_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Moved:
    """A transfer of one tensor in a plan.

    Attributes
    ----------
    replica : int
    tensor : str
    source, target : str
    nbytes : int
    seconds : float
        Of the transfer alone, as if nothing else were on its links.
    charged : tuple of int
        Nodes that are not on their preferred device and write or read it there: each is charged
        an equal part. Empty where all are where they are preferred.
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

    Attributes
    ----------
    problem : Problem
    plan : Plan or None
    wanted : str or None
        The device that was asked for.
    nodes : tuple of NodeFacts
        In graph order, replica after replica.
    groups, kernels, moved : tuples
        What the plan's time is made of; empty without one.
    """

    problem: Problem = field(repr=False)
    plan: Plan | None = field(repr=False)
    wanted: str | None
    nodes: tuple[NodeFacts, ...] = field(repr=False)
    groups: tuple[GroupFacts, ...] = field(default=(), repr=False)
    kernels: tuple[KernelFacts, ...] = field(default=(), repr=False)
    moved: tuple[Moved, ...] = field(default=(), repr=False)

    @property
    def replicas(self) -> int:
        """Number of replicas of the plan; 1 without a plan."""
        return 1 if self.plan is None else len(self.plan.replicas)

    @cached_property
    def file_nodes(self) -> tuple[FileNode, ...]:
        """The nodes of the file; of a problem made from arrays its own."""
        if self.problem.model is not None:
            return self.problem.model.file_nodes
        mine = self.nodes[: self.problem.n]
        return tuple(FileNode(node.name, node.op, node.outputs) for node in mine)

    @cached_property
    def standing_for(self) -> Mapping[str, tuple[NodeFacts, ...]]:
        """Canonical nodes by node of the file, of all replicas; empty where it was folded."""
        found: dict[str, list[NodeFacts]] = {node.name: [] for node in self.file_nodes}
        for node in self.nodes:
            for name in node.origins:
                found[name].append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}
