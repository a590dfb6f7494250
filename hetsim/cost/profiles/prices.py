"""Prices from a profile, completed by the cost model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hetsim.cost.prices import Fused
from hetsim.cost.profiles.formats import Profile, TimedKernel
from hetsim.cost.profiles.matching import Matched, elements_of, is_copy, match, own
from hetsim.cost.profiles.names import Names
from hetsim.errors import InvalidInput
from hetsim.graph.model import Model
from hetsim.graph.work import graph_work

MOST_FUSED = 16
"""Maximum nodes of a measured kernel that stays one kernel in plans, unlike a subgraph."""

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Unmatched:
    """Kernel whose time no price uses, and the reason."""

    name: str
    seconds: float
    why: str


@dataclass(frozen=True, slots=True)
class MeasuredShare:
    """Measured share of a device's prices, and the unused part of the profile.

    - `measured`: by node of the problem: whether its price is measured.
    - `nodes`: nodes that the device can run.
    - `measured_s`, `modelled_s`: seconds of all of them on the device, by origin of the price.
    - `by_name_s`, `by_place_s`: measured time matched by names, and by the position of an unnamed
    kernel among named ones.
    - `inside`: measured nodes without a separate kernel, which run inside that of a neighbour.
    - `unmatched`: kernels that match no node that the device can run, slowest first.
    - `elsewhere_s`: time of kernels of another unit, not included in prices of this device.
    - `moved_s`: time of copies between host and device, which links price.
    """

    profile: Profile
    measured: tuple[bool, ...]
    nodes: int
    measured_s: float
    modelled_s: float
    by_name_s: float
    by_place_s: float
    inside: int
    unmatched: tuple[Unmatched, ...]
    elsewhere_s: float
    moved_s: float

    @property
    def share(self) -> float:
        """Share of the device's time that is measured, from 0 to 1."""
        whole = self.measured_s + self.modelled_s
        return self.measured_s / whole if whole > 0 else float(any(self.measured))

    @property
    def unmatched_s(self) -> float:
        """Time of the kernels that match no node."""
        return float(sum(kernel.seconds for kernel in self.unmatched))


@dataclass(frozen=True, slots=True)
class ProfiledTimes:
    """Times of a device's nodes, measured where possible.

    `seconds` and `least`, float arrays [n], are those of the nodes alone; inf if unsupported.
    """

    seconds: NDArray[np.float64]
    least: NDArray[np.float64]
    fused: tuple[Fused, ...]
    share: MeasuredShare


def with_profile(
    profile: Profile,
    model: Model,
    kind: str,
    seconds: NDArray[np.float64],
    least: NDArray[np.float64],
    fused: Sequence[Fused],
) -> ProfiledTimes:
    """Replace modelled times by measured ones.

    A kernel's time is distributed over its nodes that the device can run, in proportion to their
    modelled times, so that prices of whole kernels add up to the measurement; a subgraph that cuts
    a kernel pays for its own nodes. Data-dependent shares of a node are those of the model.

    Parameters
    ----------
    kind : str
        Kind of the device, which selects its part of a profile of several units.
    seconds, least : float array [n]
        Modelled maximum and minimum times of the nodes alone; inf if unsupported.
    fused : sequence of Fused
        Modelled kernels of several nodes. With a measured member, the measurement takes precedence,
        except for composites, which keep their nodes together.

    Raises InvalidInput if no kernel matches, or most matching ones have other shapes.
    """
    graph = model.graph
    mine = own(profile.kernels, kind)
    copies = [is_copy(kernel) for kernel in profile.kernels]
    kept = [index for index, copy in enumerate(copies) if not copy]
    kernels = [profile.kernels[index] for index in kept]
    took_part = [mine[index] for index in kept]
    names = Names.of(model)
    _check_shapes(profile, model, names, kernels)
    matched = match(
        graph,
        [work.op_class for work in graph_work(graph)],
        names,
        kernels,
        took_part,
        ordered=profile.ordered,
    )
    weights = _weights(seconds, fused)
    spread = _spread(kernels, took_part, matched, weights)
    if not spread.measured.any():
        raise _none(profile, kernels, took_part, matched)
    prices, least_s = seconds.copy(), least.copy()
    known = spread.measured & np.isfinite(seconds)
    varies = np.isfinite(seconds) & (seconds > 0)
    part = np.divide(least, seconds, out=np.ones_like(seconds), where=varies)
    prices[known] = spread.seconds[known]
    least_s[known] = (spread.seconds * np.minimum(1.0, part))[known]
    kernels_now = _fused(fused, prices, weights, spread, matched)
    whole = _shared(prices, kernels_now)
    runnable = np.isfinite(whole)
    share = MeasuredShare(
        profile=profile,
        measured=tuple(bool(is_so) for is_so in spread.measured),
        nodes=int(runnable.sum()),
        measured_s=float(whole[spread.measured & runnable].sum()),
        modelled_s=float(whole[~spread.measured & runnable].sum()),
        by_name_s=spread.by_name_s,
        by_place_s=spread.by_place_s,
        inside=sum(bool(spread.measured[v]) for v in matched.inside),
        unmatched=spread.unmatched,
        elsewhere_s=float(
            sum(k.seconds for k, is_own in zip(kernels, took_part, strict=True) if not is_own)
        ),
        moved_s=float(
            sum(k.seconds for k, copy in zip(profile.kernels, copies, strict=True) if copy)
        ),
    )
    return ProfiledTimes(prices, least_s, kernels_now, share)


@dataclass(frozen=True, slots=True)
class _Spread:
    """Times of all kernels by node, and unassigned time."""

    seconds: NDArray[np.float64]
    measured: NDArray[np.bool_]
    by_name_s: float
    by_place_s: float
    unmatched: tuple[Unmatched, ...]


def _spread(
    kernels: Sequence[TimedKernel],
    took_part: Sequence[bool],
    matched: Matched,
    weights: NDArray[np.float64],
) -> _Spread:
    seconds = np.zeros(len(weights))
    measured = np.zeros(len(weights), dtype=bool)
    named_s = placed_s = 0.0
    unmatched: list[Unmatched] = []
    for index, kernel in enumerate(kernels):
        if not took_part[index]:
            continue
        nodes = [v for v in matched.nodes[index] if np.isfinite(weights[v])]
        if not nodes:
            why = "no node has that name"
            if matched.nodes[index]:
                why = "the device does not support it"
            elif index in matched.folded:
                why = "it is a constant here"
            unmatched.append(Unmatched(kernel.name, kernel.seconds, why))
            continue
        each = weights[nodes]
        total = float(each.sum())
        seconds[nodes] += kernel.seconds * (each / total if total > 0 else 1.0 / len(nodes))
        measured[nodes] = True
        if index in matched.placed:
            placed_s += kernel.seconds
        else:
            named_s += kernel.seconds
    unmatched.sort(key=lambda kernel: (-kernel.seconds, kernel.name))
    return _Spread(seconds, measured, named_s, placed_s, tuple(unmatched))


def _weights(seconds: NDArray[np.float64], fused: Sequence[Fused]) -> NDArray[np.float64]:
    """Return the modelled times for distributing kernels: alone, or shares of a composite."""
    return _shared(seconds, [kernel for kernel in fused if kernel.pattern])


def _shared(seconds: NDArray[np.float64], fused: Sequence[Fused]) -> NDArray[np.float64]:
    """Return times by node with those of kernels distributed, as in ``Problem.shared_seconds``."""
    shared = seconds.copy()
    for kernel in fused:
        nodes = np.array(kernel.nodes)
        alone = seconds[nodes]
        finite = np.isfinite(alone)
        total = float(alone[finite].sum())
        if total > kernel.seconds:
            shared[nodes[finite]] = alone[finite] * (kernel.seconds / total)
        rest = max(0.0, kernel.seconds - total)
        shared[nodes[~finite]] = rest / max(1, int((~finite).sum()))
    return shared


def _fused(
    modelled: Sequence[Fused],
    prices: NDArray[np.float64],
    weights: NDArray[np.float64],
    spread: _Spread,
    matched: Matched,
) -> tuple[Fused, ...]:
    """Return multi-node kernels: modelled ones without measured nodes, composites, measured."""
    found: list[Fused] = []
    taken: set[int] = set()
    for kernel in modelled:
        if not any(spread.measured[v] for v in kernel.nodes):
            found.append(kernel)
            taken.update(kernel.nodes)
        elif kernel.pattern:
            took_s = sum(
                float(spread.seconds[v] if spread.measured[v] else weights[v]) for v in kernel.nodes
            )
            found.append(Fused(kernel.nodes, took_s, kernel.pattern))
            taken.update(kernel.nodes)
    larger_first = sorted(enumerate(matched.nodes), key=lambda entry: (-len(entry[1]), entry[0]))
    for index, nodes in larger_first:
        fits = (
            2 <= len(nodes) <= MOST_FUSED
            and index not in matched.placed
            and taken.isdisjoint(nodes)
            and bool(np.isfinite(prices[list(nodes)]).all())
        )
        if fits:
            # Summed as in ``Problem.kernels``, so that the whole is never more expensive.
            found.append(Fused(nodes, float(sum(prices[v] for v in nodes))))
            taken.update(nodes)
    return tuple(found)


def _check_shapes(
    profile: Profile, model: Model, names: Names, kernels: Sequence[TimedKernel]
) -> None:
    """Raise InvalidInput if the profile has shapes and most of them differ."""
    alike: list[str] = []
    others: list[str] = []
    for kernel in kernels:
        spoken = names.spoken(kernel.name, op=kernel.op, index=kernel.index)
        if kernel.elements is None or spoken is None or not spoken.exact or not spoken.nodes:
            continue
        sizes = {elements_of(model.graph, v) for v in spoken.nodes}
        if None not in sizes:
            (alike if kernel.elements in sizes else others).append(kernel.name)
    if len(others) > len(alike):
        raise InvalidInput(
            f"its shapes differ: {len(others)} of {len(alike) + len(others)} kernels, "
            f"'{others[0]}' first, write another number of elements than in this model",
            where=profile.source,
            hint="bind the dimensions (--dim, --shape) as in the profiled run",
        )


def _none(
    profile: Profile,
    kernels: Sequence[TimedKernel],
    took_part: Sequence[bool],
    matched: Matched,
) -> InvalidInput:
    if not any(took_part):
        units = ", ".join(sorted({kernel.unit for kernel in kernels if kernel.unit}))
        return InvalidInput(
            f"none of its kernels ran on this kind of device: it has kernels of {units}",
            where=profile.source,
            hint="use it for the device it was measured on",
        )
    if any(matched.nodes):
        return InvalidInput(
            "the device supports none of the nodes of its kernels",
            where=profile.source,
            hint="use it for the device it was measured on, or describe the support of that device",
        )
    shown = ", ".join(f"'{kernel.name[: _NAMED * 20]}'" for kernel in kernels[:_NAMED])
    return InvalidInput(
        f"none of its {len(kernels)} kernels is named after a node of this model: {shown}",
        where=profile.source,
        hint="use a profile of this model",
    )
