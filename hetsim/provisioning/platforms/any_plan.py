"""What no plan of any kind can do, on however many devices, cut however one likes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hetsim.core.units import format_seconds
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class AnyPlan:
    """What a class of requests takes at least, node by node on the device that suits it best.

    Attributes
    ----------
    quickest_s : float
        No request is answered sooner; infinite where no device takes some node.
    work_s : float
        Seconds of some device that a request needs at least.
    lacking : str
        A node that no device takes; empty: none.
    """

    quickest_s: float
    work_s: float
    lacking: str = ""


def any_plan(sized: Sequence[tuple[int, Sequence[Problem]]]) -> AnyPlan:
    """Return what a class takes at least, of its problems in each batch size.

    The problems of one size are of the same nodes on different devices.

    *Proof.* A node takes on a device no less than ``least_seconds``, in whichever subgraph. A chain
    of nodes is done one after another, so the longest chain of the least times is below every
    latency, with transfers and waiting for nothing; a batch ends no sooner than one request would.
    A device has as many seconds a second as it has streams.
    """
    quickest_s, work_s, lacking = 0.0, np.inf, ""
    for size, problems in sized:
        least = np.min([one.least_seconds.min(axis=1) for one in problems], axis=0)
        rate = [one.least_seconds / np.asarray(one.streams, dtype=float) for one in problems]
        work_s = min(work_s, float(np.min([one.min(axis=1) for one in rate], axis=0).sum()) / size)
        first = problems[0]
        if size == sized[0][0]:
            end = np.zeros(first.n)
            for node, before in enumerate(first.dag.preds):
                end[node] = max((end[one] for one in before), default=0.0) + least[node]
            quickest_s = float(end.max(initial=0.0))
            for node in np.flatnonzero(np.isinf(least)).tolist():
                name = first.node_names[node] if first.node_names else str(node)
                kind = f" ({first.op_types[node]})" if first.op_types else ""
                lacking = lacking or f"no device takes node '{name}'{kind}"
    return AnyPlan(quickest_s, work_s, lacking)


def too_slow(model: str, one: AnyPlan, limit_s: float) -> str | None:
    """Return why no plan answers within a limit; None where one may."""
    if one.lacking:
        return f"{model}: {one.lacking}"
    if one.quickest_s * (1 - 1e-9) > limit_s:
        least, asked = format_seconds(one.quickest_s), format_seconds(limit_s)
        return f"no plan of {model} takes less than {least}, and {asked} is asked"
    return None
