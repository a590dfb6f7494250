"""Whether requests are late the more, the faster they come: proved by how they are served.

Where that is so, the rates that meet an objective are all up to one. Where it is not, they
need not be: a batcher that waits fills its batches sooner, one that goes at once makes larger ones,
and who looks for the shortest queue looks at another one; each may let a request end sooner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hetsim.provisioning.rates.sample import Sample
from hetsim.provisioning.rates.stretching import Play, Wanted, least_stretch, unit_of, units
from hetsim.provisioning.rates.systems import in_order, pools
from hetsim.simulation.orders import order_of
from hetsim.simulation.service.layout import Setup
from hetsim.simulation.service.resolving import Resolved
from hetsim.simulation.serving.setup import Model


def why_not(resolved: Sequence[Resolved], setup: Setup) -> str | None:
    """Return why requests that come faster may be late the less; None where they never are.

    Two kinds are proved: models that each send requests on at once, to one instance or to several
    in turn, where devices and links serve in order (``simulation.orders``); and models
    whose instances, alike and each on devices of its own, take one request at a time.
    """
    if setup.clients:
        return "clients wait for answers"
    if setup.turns is not None:
        return "models take turns in memory"
    for one, model in zip(resolved, setup.models, strict=True):
        name = one.served.model
        if model.template.shape[2] > 1:
            return f"requests of {name} are batched"
        if model.timeout_s < math.inf or model.max_queue_size is not None:
            return f"requests of {name} are rejected, or put last"
        if len(model.ranks) > 1:
            return f"requests of {name} have priorities"
    if _sent_at_once(setup.models):
        for model in setup.models:
            if len(model.limits) > 1 and model.routing != "round_robin":
                return f"{model.routing.replace('_', ' ')} looks at the instances"
        order = order_of(setup.layout, setup.duration)
        if order is None or order.reasons:
            return "its subgraphs never start" if order is None else order.reasons[0]
        return None
    return _pools(resolved, setup)


def exact_factor(setup: Setup, sample: Sample) -> Fraction | float | None:
    """Return the largest factor on the rate at which a sample meets every objective, exactly.

    Infinite where it does though all requests come at one moment; None where it does at no rate.
    Times of arrival and of tasks, and limits, are taken as the numbers that they are in binary,
    and nothing is rounded. For what ``why_not`` has nothing against.

    Complexity: some ten times the requests times their tasks, in whole numbers of any length.
    """
    at_once = _sent_at_once(setup.models)
    seconds = setup.duration.tolist()
    limits = [one.slo.latency_s for one in sample.objectives]
    alone = [] if at_once else _alone(setup, sample)
    exponent = unit_of([*sample.arrival_s.tolist(), *seconds, *alone, *limits])
    play: Play
    if at_once:
        order = order_of(setup.layout, setup.duration)
        assert order is not None
        play = in_order(order, setup.duration, _templates(setup, sample), exponent)
    else:
        of_stream = [source.model for source in setup.sources]
        pool = [of_stream[stream] for stream in sample.stream.tolist()]
        play = pools([len(one.limits) for one in setup.models], pool, alone, exponent)
    wanted = [
        Wanted(one.which.tolist(), limit, one.most_late)
        for one, limit in zip(sample.objectives, units(limits, exponent), strict=True)
    ]
    stretch = least_stretch(play, units(sample.arrival_s.tolist(), exponent), wanted)
    if stretch is None:
        return None
    return 1 / stretch if stretch else math.inf


def _sent_at_once(models: Sequence[Model]) -> bool:
    return not any(limit for model in models for limit in model.limits)


def _pools(resolved: Sequence[Resolved], setup: Setup) -> str | None:
    """Why instances with limits are not as so many servers with one line in front."""
    held: set[tuple[str, int]] = set()
    for one, model, alone_s in zip(resolved, setup.models, setup.alone_s, strict=True):
        name = one.served.model
        if any(limit != 1 for limit in model.limits):
            return f"an instance of {name} has several requests under way"
        if (alone_s != alone_s[:, :1]).any():
            return f"instances of {name} are unlike"
        for instance in range(len(model.limits)):
            mine: set[tuple[str, int]] = set()
            for which in np.unique(model.template[:, instance]).tolist():
                template = setup.plan_tasks.templates[which]
                mine |= {("device", device) for device in template.group_device}
                mine |= {("link", k) for move in template.transfers for k in move.resources}
            if held & mine:
                return f"instances of {name} share devices or links"
            held |= mine
    return None


def _alone(setup: Setup, sample: Sample) -> list[float]:
    """What each request takes alone, by its model and variant."""
    found = np.empty(len(sample))
    for at, source in enumerate(setup.sources):
        mine = sample.stream == at
        found[mine] = setup.alone_s[source.model][sample.variant[mine], 0, 0]
    return found.tolist()


def _templates(setup: Setup, sample: Sample) -> list[int]:
    """What each request runs: instances take turns."""
    found = np.empty(len(sample), dtype=np.int64)
    model_of = np.array([source.model for source in setup.sources], dtype=np.int64)
    asked = model_of[sample.stream]
    for at, model in enumerate(setup.models):
        mine = np.flatnonzero(asked == at)
        cycle = np.array(model.cycle or range(len(model.limits)), dtype=np.int64)
        turn = np.resize(cycle, len(mine)) if len(mine) else mine
        found[mine] = model.template[sample.variant[mine], turn, 0]
    return found.tolist()
