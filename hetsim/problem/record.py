"""A problem as a plain record: what was asked, the same for the same question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetsim.base.text import Record
from hetsim.problem.problem import Problem

if TYPE_CHECKING:
    from hetsim.graph.model import Model


def seen_record(model: Model) -> Record | None:
    """Return what a run of the model was for: on which inputs, how many shapes it measured."""
    seen = model.observed
    if seen is None:
        return None
    return {
        "source": seen.source,
        "measured_shapes": len(seen.shapes),
        "shapes_by_data": sum(model.graph.tensors[name].measured for name in seen.shapes),
        "branches": dict(sorted(seen.branches.items())),
        "trips": dict(sorted(seen.trips.items())),
    }


def problem_record(problem: Problem) -> Record:
    """Return what was asked: model, platform, devices, and the links' behaviour."""
    model, platform = problem.model, problem.platform
    return {
        "name": problem.name,
        "fingerprint": problem.fingerprint,
        "model": None
        if model is None
        else {
            "name": model.name,
            "source": model.source,
            "sha256": model.sha256,
            "canonical": model.canonical,
            "dims": dict(sorted(model.dims.items())),
            "shapes": {name: list(shape) for name, shape in sorted(model.shapes.items())},
            "frozen": sorted(model.frozen),
            "observed": seen_record(model),
        },
        "platform": None
        if platform is None
        else {"name": platform.name, "source": platform.source, "sha256": platform.sha256},
        "nodes": problem.n,
        "devices": list(problem.devices),
        "host": None if problem.host is None else problem.devices[problem.host],
        "contention": problem.contention,
        "unpriced": unpriced_record(problem),
    }


def unpriced_record(problem: Problem) -> dict[str, str]:
    """Return the nodes that are not priced, and why, by name."""
    return {problem.node_names[node]: why for node, why in sorted(problem.unpriced.items())}
