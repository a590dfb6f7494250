"""What is given of a Problem: the fields, from a model on a platform or from arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hetsim.hardware.spec import Route
from hetsim.problem.evidence import Evidence
from hetsim.problem.parts import Constant, Contention, FusedKernel, Held, Slower, Staging, Value

if TYPE_CHECKING:
    from hetsim.cost.profiles.prices import MeasuredShare
    from hetsim.graph.model import Model
    from hetsim.hardware.spec import Platform


@dataclass(frozen=True, eq=False)
class Given:
    """All that a Problem is made of; what follows from it, the Problem itself works out.

    Attributes
    ----------
    name : str
    devices : tuple of str
    seconds : float array [n, P]
        Time of node v alone on device p, kernel launch included; inf where unsupported.
    values : tuple of Value
    constants : tuple of Constant
    routes : tuple of tuple of Route
        ``routes[p][q]`` for p != q; the diagonal is free and of no meaning.
    dispatch_s : tuple of float
        Cost of starting one subgraph, by device.
    streams : tuple of int
        Subgraphs that run at once, by device.
    host : int or None
        Device on which inputs start and outputs end; None: inputs and outputs are free.
    contention : "none" or "fifo"
        Whether a link carries one transfer at a time.
    link_names : tuple of str
        The resources that ``Route.resources`` points to.
    capacity_bytes : tuple of int, or None
        Memory by device, in bytes of the graph's own types; None: memory is not modelled.
    held : tuple of Held
        By device: how the bytes of the graph's own types are held there; empty: as they are.
    fused : tuple of FusedKernel
    staging : Staging or None
        What subgraphs pay for tensors that go through the host's memory; None: nothing, the
        routes alone say what a transfer costs.
    idle_w, busy_w : tuple of float
        Power by device; all zero where energy is not modelled.
    node_names, op_types : tuple of str
    origins : tuple of tuple of str
        Names in the user's file that each node stands for.
    refusals : tuple of mapping of int to str
        By device: why it does not support a node.
    unpriced : mapping of int to str
        Nodes of which it is not known what they do, and why: `seconds` has what is known of
        them, which is no bound. Nothing is claimed of any plan where there are any.
    unsized : mapping of int to str
        Nodes whose product's sizes are not known, and why, where prices by figures of kernels
        count on them: these are by its FLOP alone, and less sure than the others.
    least_s : mapping of int to tuple of float
        By node, then device: the time of nodes that may take less than `seconds` says, such as
        an If of which it is not known which branch it takes. Bounds count on it; all else
        counts on `seconds`.
    profiles : mapping of str to MeasuredShare
        By device that has one: the profile that prices of it are from, and how far.
    evidence, link_evidence : tuple of Evidence
        By device, and by link of the platform: what their figures rest on, and how far times may
        be off. Empty for instances given as arrays, which are taken as exact.
    pessimistic : bool
        Whether every time is at the bad end of its interval: what 80 % of the draws are between
        ends there.
    slower : Slower or None
        How much of the times is that devices wait for power or memory that others take, as a plan
        makes them (``hetsim.analysis.sustaining``); None: each is as fast as it is alone.
    cost : str
        Name of the cost model that gave the times; empty for instances given as arrays.
    model, platform : Model, Platform or None
        Where the problem came from; None for instances given as arrays.
    """

    name: str
    devices: tuple[str, ...]
    seconds: NDArray[np.float64] = field(repr=False)
    values: tuple[Value, ...] = field(repr=False)
    constants: tuple[Constant, ...] = field(repr=False)
    routes: tuple[tuple[Route, ...], ...] = field(repr=False)
    dispatch_s: tuple[float, ...] = field(repr=False)
    streams: tuple[int, ...] = field(repr=False)
    host: int | None = None
    contention: Contention = "fifo"
    link_names: tuple[str, ...] = field(default=(), repr=False)
    capacity_bytes: tuple[int, ...] | None = field(default=None, repr=False)
    held: tuple[Held, ...] = field(default=(), repr=False)
    fused: tuple[FusedKernel, ...] = field(default=(), repr=False)
    staging: Staging | None = None
    idle_w: tuple[float, ...] = field(default=(), repr=False)
    busy_w: tuple[float, ...] = field(default=(), repr=False)
    node_names: tuple[str, ...] = field(default=(), repr=False)
    op_types: tuple[str, ...] = field(default=(), repr=False)
    origins: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    refusals: tuple[Mapping[int, str], ...] = field(default=(), repr=False)
    unpriced: Mapping[int, str] = field(default_factory=dict, repr=False)
    unsized: Mapping[int, str] = field(default_factory=dict, repr=False)
    least_s: Mapping[int, tuple[float, ...]] = field(default_factory=dict, repr=False)
    profiles: Mapping[str, MeasuredShare] = field(default_factory=dict, repr=False)
    evidence: tuple[Evidence, ...] = field(default=(), repr=False)
    link_evidence: tuple[Evidence, ...] = field(default=(), repr=False)
    pessimistic: bool = False
    slower: Slower | None = None
    cost: str = ""
    model: Model | None = field(default=None, repr=False)
    platform: Platform | None = field(default=None, repr=False)
