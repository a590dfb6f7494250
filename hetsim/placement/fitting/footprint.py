"""What must fit whatever the order: bytes that no plan with a node on a device can do without."""

from __future__ import annotations

from dataclasses import dataclass

from hetsim.core.units import format_bytes
from hetsim.errors import OutOfMemory
from hetsim.problem.parts import GRAPH_INPUT
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.simulation.clock.playing import peak_memory


@dataclass(frozen=True, eq=False)
class Footprint:
    """Lower bounds on memory, by the rules of ``clock.memory``.

    Attributes
    ----------
    problem : Problem
        With memory capacities.
    beside : tuple of tuple of int, [n][P]
        What lies on a device beside its weights while it runs a node: all that the node reads
        and makes. 0 where the node may take no time.
    always : tuple of int, [P]
        What lies there at some instant whoever runs what: on the host all inputs, then all
        outputs.
    """

    problem: Problem
    beside: tuple[tuple[int, ...], ...]
    always: tuple[int, ...]

    @classmethod
    def of(cls, problem: Problem) -> Footprint:
        """Count them. O((V + E) P)."""
        count = len(problem.devices)
        touched = [0] * problem.n
        for value in problem.values:
            if value.producer != GRAPH_INPUT:
                touched[value.producer] += value.nbytes
            elif problem.host is None:
                continue
            for v in value.consumers:
                touched[v] += value.nbytes
        seconds = problem.shared_seconds.tolist()
        beside = tuple(
            tuple(
                touched[v] if seconds[v][p] > 0 or problem.dispatch_s[p] > 0 else 0
                for p in range(count)
            )
            for v in range(problem.n)
        )
        always = [0] * count
        if problem.host is not None:
            always[problem.host] = max(_inputs(problem), _outputs(problem))
        return cls(problem, beside, tuple(always))

    @property
    def capacity(self) -> tuple[int, ...]:
        """Bytes by device."""
        assert self.problem.capacity_bytes is not None
        return self.problem.capacity_bytes


def _lasts(problem: Problem, nodes: tuple[int, ...]) -> bool:
    """Whether each of `nodes` takes time on the host."""
    host = problem.host
    assert host is not None
    return all(
        problem.dispatch_s[host] > 0 or float(problem.shared_seconds[v, host]) > 0 for v in nodes
    )


def _moves_slowly(problem: Problem, nbytes: int, *, away: bool) -> bool:
    """Whether a tensor takes time between the host and every other device."""
    host = problem.host
    assert host is not None
    others = [p for p in range(len(problem.devices)) if p != host]
    routes = [problem.routes[host][p] if away else problem.routes[p][host] for p in others]
    return all(route.seconds(nbytes) > 0 for route in routes)


def _inputs(problem: Problem) -> int:
    """Bytes of the inputs that are sure to be on the host together when a request arrives."""
    return sum(
        value.nbytes
        for value in problem.values
        if value.producer == GRAPH_INPUT
        and value.consumers
        and _lasts(problem, value.consumers)
        and _moves_slowly(problem, value.nbytes, away=True)
    )


def _outputs(problem: Problem) -> int:
    """Bytes of the outputs that are sure to be there together just before it ends."""
    return sum(
        value.nbytes
        for value in problem.values
        if value.is_output
        and value.producer != GRAPH_INPUT
        and _lasts(problem, (value.producer,))
        and _moves_slowly(problem, value.nbytes, away=False)
    )


@dataclass(frozen=True, slots=True)
class Excess:
    """What a plan holds beyond its devices' memory.

    Attributes
    ----------
    total : int
        Bytes over all devices; 0 where it fits.
    peaks : tuple of int
        The most bytes that each device holds.
    latency_s : float
    """

    total: int
    peaks: tuple[int, ...]
    latency_s: float


def excess(plan: Plan) -> Excess:
    """Play one request and count. Raises what ``simulate`` raises, but for OutOfMemory."""
    latency_s, peaks = peak_memory(plan)
    capacity = plan.problem.capacity_bytes
    total = 0
    if capacity is not None:
        total = sum(max(0, peak - held) for peak, held in zip(peaks, capacity, strict=True))
    return Excess(total, tuple(peaks), latency_s)


def refusal(problem: Problem, over: Excess, what: str) -> OutOfMemory:
    """Return the error that says by how much, and where, the closest plan misses."""
    assert problem.capacity_bytes is not None
    lacks = [peak - held for peak, held in zip(over.peaks, problem.capacity_bytes, strict=True)]
    device = max(range(len(lacks)), key=lambda p: (lacks[p], -p))
    peak, held = (
        problem.held_bytes(device, nbytes)
        for nbytes in (over.peaks[device], problem.capacity_bytes[device])
    )
    return OutOfMemory(
        f"{what}; the closest needs {format_bytes(peak)} ({peak} bytes) there "
        f"and it has {format_bytes(held)} ({held} bytes)",
        where=f"device '{problem.devices[device]}'",
        hint="add memory or a device, or take back pins and exclusions",
        device=problem.devices[device],
        needed_bytes=peak,
        held_bytes=held,
    )
