"""The verdict of a comparison: whether several devices pay, by its Monte Carlo samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hetsim.analysis.sureness import TIE, Sureness

LIKELY = 0.8
"""Share of the samples in which a plan must be faster before it is called worth it."""

PAYS = 1.05
"""Speed-up by the point estimates that it must have, too."""

Answer = Literal[
    "pays", "does not pay", "too close to call", "no single device", "nothing split", "no plan"
]


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan that may be taken.

    Attributes
    ----------
    strategy : str
        ``single:NAME`` is a device alone.
    cost_s : float
        What the objective counts, by the point estimates.
    devices : tuple of str
        That it uses.
    copies : bool
        Whether each of several devices has the whole model.
    """

    strategy: str
    cost_s: float
    devices: tuple[str, ...]
    copies: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether several devices pay, and which plan to take.

    A plan on several devices pays where it is faster in at least LIKELY of the samples and its
    speed-up by the point estimates is at least PAYS. It does not pay where it is faster in at most
    1 - LIKELY of them, where it is likely faster but by less than PAYS, or where no plan uses
    several devices. Otherwise it is too close to call, and the simpler plan is the one to take.

    Attributes
    ----------
    answer : str
        ``no single device``: none runs the whole model, so that there is nothing to beat;
        ``nothing split``: only devices alone were compared; ``no plan``: none is feasible.
    take : Choice or None
        The plan to take.
    tried : Choice or None
        The plan on several devices that was judged; None where there is none.
    over : Choice or None
        What it was judged against: the fastest device alone or, for throughput, copies of the
        whole model that themselves pay.
    gain : float or None
        Speed-up of `tried` over `over` by the point estimates.
    chance : float or None
        Share of the samples in which `tried` is faster than `over`; None without samples.
    sure : Sureness or None
        Of the plan to take; None without samples.
    """

    answer: Answer
    take: Choice | None = None
    tried: Choice | None = None
    over: Choice | None = None
    gain: float | None = None
    chance: float | None = None
    sure: Sureness | None = None

    @property
    def likely(self) -> bool:
        """Whether what was judged is likely faster, by however little."""
        likely = self.chance is None or self.chance >= LIKELY
        return likely and self.gain is not None and self.gain > 1.0


NO_PLAN = Verdict("no plan")


def decide(
    single: Choice,
    plans: Sequence[Choice],
    samples: Mapping[str, NDArray[np.float64]],
) -> Verdict:
    """Return whether plans on several devices pay over a device alone.

    Copies of the whole model are judged first, and splits against what is to be taken then. Of
    several plans that pay the cheapest counts, of those that do not the likeliest.

    Parameters
    ----------
    single : Choice
        The device that is fastest alone.
    plans : sequence of Choice
        On several devices.
    samples : mapping of str to float array [N]
        Cost of every plan in every sample, by strategy; empty without samples.
    """
    verdict = Verdict("does not pay", single)
    for copies in (True, False):
        over = verdict.take
        assert over is not None
        judged = [
            _judged(one, over, samples)
            for one in sorted(plans, key=lambda one: one.cost_s)
            if one.copies == copies
        ]
        paying = [one for one in judged if one.answer == "pays"]
        if paying:
            verdict = replace(paying[0], take=paying[0].tried)
        elif judged:
            verdict = replace(max(judged, key=lambda one: one.chance or 0.0), take=over)
    return verdict


def _judged(tried: Choice, over: Choice, samples: Mapping[str, NDArray[np.float64]]) -> Verdict:
    gain = over.cost_s / tried.cost_s if tried.cost_s > 0 else float(tried.cost_s == over.cost_s)
    chance = None
    if samples:
        faster = samples[tried.strategy] * (1 + TIE) < samples[over.strategy]
        chance = float(faster.mean())
    answer: Answer = "too close to call"
    if chance is None or chance >= LIKELY:
        answer = "pays" if gain >= PAYS else "does not pay"
    elif 1 - chance >= LIKELY:
        answer = "does not pay"
    return Verdict(answer, None, tried, over, gain, chance)
