"""Queues whose answers are known, played by the engine that serves deployments.

Each is a deployment, seeds that give its requests, and the true figures of ``oracles.queueing``.
Times are in mean services.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetsim.simulation.clock.rules import Structure
from hetsim.simulation.clock.templates import TemplateLayout
from hetsim.simulation.serving.engine import Serving
from hetsim.simulation.serving.setup import Clients, ModelSetup, Outcomes, RequestSource
from oracles.queueing import closed_loop, one_server, priorities, several_servers
from oracles.queueing.batches import BatchServer
from oracles.queueing.one_server import CONSTANT, TWO, Memoryless, Services
from oracles.random_layouts import Shape, layout_of

Floats = NDArray[np.float64]

BLOCK = 2**14
STEP = 1 / 16
"""Width of the cells of exponential services: what it makes wrong is below 2e-4 of any figure."""


class Known(NamedTuple):
    """A queue, and what is true of it.

    Attributes
    ----------
    law : str
    load : float
    truth : dict of str to float
        By figure: "mean", "p99", "waiting", "utilization", "throughput" or "rejected".
    play : function of a seed
        Yields what becomes of its requests, in the order of arrival, without end.
    stream : int
        Of which requests the figures are; -1: of all.
    servers : int
    """

    law: str
    load: float
    truth: dict[str, float]
    play: Callable[[int], Iterator[Outcomes]]
    stream: int = -1
    servers: int = 1


@functools.cache
def layout(templates: int, streams: tuple[int, ...] = (1,)) -> TemplateLayout:
    """So many templates of one subgraph each on each of the devices, device by device."""
    shapes = [Shape([d], [], [[]]) for d in range(len(streams)) for _ in range(templates)]
    made = layout_of(shapes, list(streams), 0)
    arrays: Any = [np.asarray(part, np.int64) for part in made.structure]
    return TemplateLayout(made.plan, made.links, Structure._make(arrays))


def server(
    seconds: Sequence[float],
    servers: int = 1,
    sources: Sequence[RequestSource] = (RequestSource(0),),
    **how: Any,
) -> Serving:
    """One queue before a device of so many streams; `seconds` by variant."""
    table = np.arange(len(seconds)).reshape(-1, 1, 1)
    model = ModelSetup(table, (servers,), **how)
    return Serving(layout(len(seconds), (servers,)), np.array(seconds), [model], sources)


def open_(
    make: Callable[[], Serving],
    rate: float,
    shares: Sequence[float] = (1.0,),
    streams: Sequence[float] = (1.0,),
) -> Callable[[int], Iterator[Outcomes]]:
    """Poisson arrivals, each of a variant and of a stream by chance."""

    def play(seed: int) -> Iterator[Outcomes]:
        rng = np.random.default_rng([seed, 21])
        serving = make()
        of_variant, of_stream = np.cumsum(shares), np.cumsum(streams)
        now = 0.0
        while True:
            arrival = now + np.cumsum(rng.standard_exponential(BLOCK) / rate)
            now = float(arrival[-1])
            variant, stream = (
                np.searchsorted(of[:-1], rng.random(BLOCK), side="right")
                if len(of) > 1
                else np.zeros(BLOCK, dtype=np.int64)
                for of in (of_variant, of_stream)
            )
            yield serving.serve(arrival, stream, variant)

    return play


def one_queue(services: Services, load: float, servers: int = 1, **how: Any) -> Any:
    """``open_`` of one queue at this load of each server."""
    rate = load * servers / services.moment(1)
    return open_(lambda: server(services.seconds, servers, **how), rate, services.shares)


def exponential() -> Services:
    """Services that are exponential but for the width of a cell."""
    return one_server.exponential(STEP)


def waiting_truth(load: float, wait: float, p99: float, servers: int = 1) -> dict[str, float]:
    """What is true where each waits so long on average, before a service of 1."""
    return {"mean": 1 + wait, "p99": p99, "waiting": load * servers * wait, "utilization": load}


def constant(load: float) -> Known:
    """M/D/1."""
    wait = one_server.mean_wait(load, CONSTANT)
    late = functools.partial(one_server.beyond_constant, load)
    truth = waiting_truth(load, wait, one_server.time_at(late, 99, 20 / (1 - load)))
    return Known("M/D/1", load, truth | {"throughput": load}, one_queue(CONSTANT, load))


def memoryless(load: float) -> Known:
    """M/M/1."""
    truth = waiting_truth(load, load / (1 - load), math.log(100) / (1 - load))
    return Known("M/M/1", load, truth | {"throughput": load}, one_queue(exponential(), load))


def general(load: float) -> Known:
    """M/G/1 of two services, of a squared coefficient of variation of 2.25."""
    wait = one_server.mean_wait(load, TWO)
    times, late = one_server.late_by_renewal(load, TWO, 1 / 32, 20 + 10 / (1 - load))
    truth = waiting_truth(load, wait, one_server.percentile(times, late, 99))
    return Known("M/G/1", load, truth, one_queue(TWO, load))


def losing(load: float, servers: int = 4) -> Known:
    """M/G/c/c: Erlang-B holds whatever the services; here of two lengths."""
    truth = {"rejected": several_servers.erlang_b(load * servers, servers)}
    play = one_queue(TWO, load, servers, max_queue_size=0)
    return Known(f"Erlang-B, {servers} servers", load, truth, play)


def several(load: float, servers: int = 3) -> Known:
    """M/M/c: Erlang-C."""
    offered = load * servers
    wait = several_servers.erlang_c(offered, servers) / (servers - offered)
    late = functools.partial(several_servers.late, offered, servers)
    truth = waiting_truth(load, wait, one_server.time_at(late, 99, 20 / (1 - load)), servers)
    return Known(
        f"Erlang-C, {servers} servers",
        load,
        truth,
        one_queue(exponential(), load, servers),
        servers=servers,
    )


def several_constant(load: float, servers: int = 3) -> Known:
    """M/D/c."""
    offered = load * servers
    inside = several_servers.constant_inside(offered, servers)

    def late(time: float) -> float:
        return (
            1.0
            if time < 1
            else 1 - several_servers.constant_waits(offered, servers, time - 1, inside)
        )

    wait = several_servers.constant_mean_wait(offered, servers)
    truth = waiting_truth(load, wait, one_server.time_at(late, 99, 20 / (1 - load)), servers)
    return Known(
        f"M/D/c, {servers} servers",
        load,
        truth,
        one_queue(CONSTANT, load, servers),
        servers=servers,
    )


def prioritised(load: float, level: int, urgent: float = 0.4) -> Known:
    """Two levels of exponential services, of which a part is urgent."""
    rates = (urgent * load, (1 - urgent) * load)
    services = (Memoryless(), Memoryless())
    wait = priorities.waits(rates, services, level)

    def late(time: float) -> float:
        return one_server.late_by_transform(lambda s: wait(s) / (1 + s), time, 60)

    mean = priorities.mean_waits(rates, services)[level]
    truth = {"mean": 1 + mean, "p99": one_server.time_at(late, 99, 40 / (1 - load))}
    drawn = exponential()
    sources = [RequestSource(0, 0), RequestSource(0, 1)]
    play = open_(
        lambda: server(drawn.seconds, sources=sources, ranks=(0, 1)),
        load,
        drawn.shares,
        (urgent, 1 - urgent),
    )
    return Known(f"Cobham, level {level + 1}", load, truth, play, level)


TAKES = (1.0, 1.25, 1.5, 1.75)
"""What batches of 1 to 4 take."""


def takes_all() -> Serving:
    """A server that takes all that waits, up to four."""
    model = ModelSetup(np.arange(len(TAKES)).reshape(1, 1, -1), (1,))
    return Serving(layout(len(TAKES)), np.array(TAKES), [model], [RequestSource(0)])


def batched(load: float) -> Known:
    """All that waits, up to four; `load` is of what batches of four would carry."""
    rate = load * len(TAKES) / TAKES[-1]
    truly = BatchServer(rate, TAKES)
    truth = {
        "mean": truly.mean_latency(),
        "p99": one_server.time_at(truly.late, 99, 20 / (1 - load)),
        "waiting": rate * truly.mean_wait(),
        "throughput": rate,
    }

    return Known("batches of up to 4", load, truth, open_(takes_all, rate))


def repaired(load: float, machines: int = 8) -> Known:
    """Machine repair: a closed loop; `load` is of what its server could do at most."""
    # As long to think as makes the machines ask for so much, did none wait.
    think = machines / load - 1
    rate, latency = closed_loop.mean_values(machines, think)
    late = functools.partial(closed_loop.late, machines, think)
    truth = {
        "mean": latency,
        "p99": one_server.time_at(late, 99, 20.0 * machines),
        "throughput": rate,
        "utilization": rate,
    }
    services = exponential()

    def times(seed: int, block: int) -> Floats:
        rng = np.random.default_rng([seed, 23, block])
        return think * rng.standard_exponential((256, machines))

    def first(seed: int, requests: int) -> Outcomes:
        # An instance for each length, all on one device: turns say who gets which.
        instances = len(services.seconds)
        cuts = np.cumsum(services.shares)[:-1]
        drawn = np.searchsorted(cuts, np.random.default_rng([seed, 22]).random(requests), "right")
        model = ModelSetup(
            np.arange(instances).reshape(1, -1, 1),
            (0,) * instances,
            routing="round_robin",
            cycle=tuple(drawn.tolist()),
        )
        found = Serving(
            layout(instances),
            np.array(services.seconds),
            [model],
            [RequestSource(0)],
            [Clients(0, machines, functools.partial(times, seed))],
            requests=requests,
        ).close()
        # It is one server, so who comes after all others were answered waits for nothing.
        ends = np.maximum.accumulate(np.append(-math.inf, found.finish_s))[:-1]
        return found._replace(fresh=found.arrival_s >= ends)

    def play(seed: int) -> Iterator[Outcomes]:
        # The same from the start, longer each time: what comes first is the same.
        before = 0
        while True:
            found = first(seed, max(2 * before, BLOCK))
            for at in range(before, found.requests, BLOCK):
                yield Outcomes._make(column[at : at + BLOCK] for column in found)
            before = found.requests

    return Known(f"machine repair, {machines} machines", load, truth, play)
