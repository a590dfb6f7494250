"""What became of the replicas of a model while its requests came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hetsim.simulation.autoscaling.serving import Replica
from hetsim.simulation.service.fewest import Fewest
from hetsim.simulation.service.resolving import Resolved, devices_of
from hetsim.workload.autoscaling import Autoscaling


@dataclass(frozen=True, slots=True)
class Lived:
    """One replica, within the run.

    Attributes
    ----------
    instance : int
        In whose place.
    start_s, up_s, leave_s, gone_s : float
        When it was started, got its first request at the soonest, got no more, and was gone; of
        what came later the end of the run, and of one that never got any `up_s` is `gone_s`.
    """

    instance: int
    start_s: float
    up_s: float
    leave_s: float
    gone_s: float


@dataclass(frozen=True, slots=True)
class Scaled:
    """What became of the replicas of one model.

    Attributes
    ----------
    model : str
    config : Autoscaling
    lived : tuple of Lived
        In the order of their starts; those of which the run began were there.
    mean : float
        Replicas that were alive on average, starting and going ones too.
    starts : int
        Of replicas after the begin.
    start_s : float
        Mean seconds that a start took, those of replicas that left sooner apart; NaN without any.
    replica_s : float
        Seconds of all replicas from their starts until they were gone, or the end of the run.
    fewest : Fewest or None
        What no scaling goes below; None where clients send as they are answered, so that what comes
        is another where replicas are others.
    """

    model: str
    config: Autoscaling
    lived: tuple[Lived, ...] = field(repr=False)
    mean: float
    starts: int
    start_s: float
    replica_s: float
    fewest: Fewest | None

    @property
    def replica_hours(self) -> float:
        """What a cloud bills."""
        return self.replica_s / 3600.0

    @property
    def most(self) -> int:
        """The most replicas that were alive at once."""
        return max((alive for _, alive, _ in self.changes()), default=0)

    def changes(self) -> list[tuple[float, int, int]]:
        """When the number of replicas changed, and how many were alive and got requests then."""
        moves: dict[float, list[int]] = {}
        for one in self.lived:
            ran = int(one.up_s < one.leave_s)
            for at_s, alive, up in (
                (one.start_s, 1, 0),
                (one.up_s, 0, ran),
                (one.leave_s, 0, -ran),
                (one.gone_s, -1, 0),
            ):
                both = moves.setdefault(at_s, [0, 0])
                both[0] += alive
                both[1] += up
        found, alive, up = [], 0, 0
        for at_s in sorted(moves):
            alive += moves[at_s][0]
            up += moves[at_s][1]
            found.append((at_s, alive, up))
        return found


def lived(ever: Sequence[Replica], duration_s: float) -> tuple[Lived, ...]:
    """Return the replicas that there were until the end of a run."""
    return tuple(
        Lived(
            one.place,
            one.start_s,
            min(one.up_s, one.gone_s, duration_s),
            min(one.leave_s, duration_s),
            min(one.gone_s, duration_s),
        )
        for one in ever
        if one.start_s < duration_s or one.start_s == 0
    )


def used_by(one: Resolved) -> list[list[str]]:
    """Return the devices that each instance uses, in the problem's order."""
    found = []
    for entry, rows in zip(one.served.instances, one.plans, strict=True):
        names = devices_of(rows)
        found += [[name for name in one.problem.devices if name in names]] * entry.count
    return found


def seconds_of_any(spells: Sequence[tuple[float, float]]) -> float:
    """Return for how long at least one of several spells lasted. O(n log n)."""
    whole, until_s = 0.0, 0.0
    for begin_s, end_s in sorted(spells):
        whole += max(end_s - max(begin_s, until_s), 0.0)
        until_s = max(until_s, end_s)
    return whole
