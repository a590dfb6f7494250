"""The same requests where replicas do not come and go: as many all along as there are at most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hetsim.hardware.spec import Platform
from hetsim.simulation.service.layout import set_up
from hetsim.simulation.service.memory import check_together
from hetsim.simulation.service.resolving import Resolved
from hetsim.simulation.service.service import Service
from hetsim.simulation.service.serving import played
from hetsim.workload.autoscaling import Autoscaling


def fixed(
    service: Service, platform: Platform, *, machine_code: bool | None = None
) -> tuple[Service, ...]:
    """Return what becomes of the same requests with the fewest replicas, and with the most.

    Of each model that is scaled the first so many of its instances, there from the beginning to the
    end; at least one. Nothing where no model is scaled.

    Complexity: that of ``service``, twice, but for planning.
    """
    if not service.scaled:
        return ()
    workload = replace(service.workload, requests=service.requests, duration_s=None)

    def with_(count: Callable[[Autoscaling], int]) -> Service:
        resolved = tuple(_of(one, count) for one in service.resolved)
        setup = set_up(resolved, workload, check_together(resolved, platform))
        return played(workload, resolved, setup, machine_code=machine_code)

    return with_(lambda config: max(config.min_replicas, 1)), with_(
        lambda config: config.max_replicas
    )


def _of(one: Resolved, count: Callable[[Autoscaling], int]) -> Resolved:
    config = one.served.autoscaling
    if config is None:
        return one
    many = count(config)
    always = replace(config, min_replicas=many, max_replicas=many, initial_replicas=None)
    return replace(one, served=replace(one.served, autoscaling=always))
