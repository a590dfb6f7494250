"""Models whose replicas come and go, as the engine takes them: what each loads when it starts."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.simulation.autoscaling.serving import Scaling
from hetsim.simulation.clock.templates import Template
from hetsim.simulation.service.memory import weights_of
from hetsim.simulation.service.resolving import Resolved
from hetsim.simulation.service.turns import load_template


def scalings_of(
    resolved: Sequence[Resolved], templates: int
) -> tuple[tuple[Scaling | None, ...] | None, tuple[Template, ...]]:
    """Return how models are scaled, and the templates that load replicas, from `templates` on.

    Weights come from the host's memory, to each device that an instance uses, by the route that its
    tensors take, and hold its links; those of the host itself are there. None where no model is
    scaled.

    Raises NoRoute where no route leads from the host to a device.
    """
    loads: list[Template] = []
    found: list[Scaling | None] = []
    for one in resolved:
        config = one.served.autoscaling
        if config is None:
            found.append(None)
            continue
        each: list[tuple[int, ...]] = []
        for entry, rows in zip(one.served.instances, one.plans, strict=True):
            first = templates + len(loads)
            for p, there in enumerate(weights_of(rows)):
                nbytes = one.problem.held_bytes(p, sum(there.values()))
                if nbytes and p != one.problem.host:
                    loads.append(load_template(one, p, nbytes))
            each += [tuple(range(first, templates + len(loads)))] * entry.count
        found.append(Scaling(config, tuple(each)))
    return (None if not any(found) else tuple(found)), tuple(loads)
