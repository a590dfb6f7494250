"""The same requests on the same plans, with the figures of devices and links at their bad end."""

from __future__ import annotations

import hetsim
from deployments import deployed, poisson
from hetsim.simulation.service.asked import Asked
from hetsim.simulation.service.bad_end import at_bad_end
from hetsim.simulation.service.serving import serve
from hetsim.workload.deployment import DynamicBatching
from hetsim.workload.workload import Slo


def test_it_is_what_pessimistic_figures_give(open_: str, platform: hetsim.Platform) -> None:
    """A device alone: the plan that pessimistic figures lead to is the same."""
    deployment = deployed(
        open_, batch_sizes=(1, 4), dynamic_batching=DynamicBatching(4, max_queue_delay_us=100)
    )
    workload = poisson(open_, 2000.0, 3000, slos=(Slo(0.9, 0.002),))
    service = serve(deployment, workload, platform)
    worse = at_bad_end(service, platform)
    assert worse is not None
    told = serve(deployment, workload, platform, asked=Asked(pessimistic=True))
    assert worse.streams == told.streams
    assert worse.devices == told.devices
    [before], [after] = service.streams, worse.streams
    assert after.requests == before.requests
    assert after.mean_s > before.mean_s
    assert at_bad_end(told, platform) is None
