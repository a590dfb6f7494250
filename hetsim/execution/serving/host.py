"""What of a run under load was late because of the machine that played it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hetsim.base.units import format_seconds


@dataclass(frozen=True, slots=True)
class Late:
    """How late something was, in real seconds.

    Attributes
    ----------
    mean_s, p99_s, max_s : float
        0 where nothing was.
    """

    mean_s: float
    p99_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Host:
    """How this machine kept up, in real seconds.

    Attributes
    ----------
    sent : Late
        Requests, against when they were due: the dispatcher was busy, or its timer slack.
    answered : Late
        Answers, against when they were due: when the last task of a batch should have ended, and
        did on its device.
    calls : int
        Of devices.
    overran : int
        Calls that took longer than their modelled time.
    overrun_s, longest_overrun_s : float
        By how much in all, and at most; 0 where nothing is emulated.
    modelled_s : float
        What all calls should have taken; 0 where nothing is emulated.
    dispatcher : float
        Share of the run in which the thread that sends requests was at work.
    wall_s : float
        Of the run.
    """

    sent: Late
    answered: Late
    calls: int
    overran: int
    overrun_s: float
    longest_overrun_s: float
    modelled_s: float
    dispatcher: float
    wall_s: float

    def behind(self, latency_s: float, allowed: float) -> str | None:
        """Return in one line why figures of this run mean nothing; None where they do.

        `latency_s`: the mean that was measured, in real seconds; `allowed`: the share of it,
        and of what devices should have taken, that may be this machine's lateness.
        """
        if self.overrun_s > allowed * self.modelled_s:
            return (
                f"calls of devices took {self.overrun_s / self.modelled_s:.0%} longer than "
                f"modelled, {format_seconds(self.longest_overrun_s)} at most"
            )
        # What is emulated goes on from when it was due, however late it was sent.
        late_s = self.answered.mean_s + (0.0 if self.modelled_s else self.sent.mean_s)
        if late_s > allowed * latency_s:
            return (
                f"requests were sent {format_seconds(self.sent.mean_s)} late on average and "
                f"answers noted {format_seconds(self.answered.mean_s)} late, of a latency of "
                f"{format_seconds(latency_s)}"
            )
        return None


def late(seconds: np.ndarray[Any, np.dtype[np.float64]]) -> Late:
    """Return how late things were, each by so many real seconds."""
    if not len(seconds):
        return Late(0.0, 0.0, 0.0)
    p99_s = float(np.percentile(seconds, 99, method="inverted_cdf"))
    return Late(float(seconds.mean()), p99_s, float(seconds.max()))
