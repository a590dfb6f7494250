"""Verdict of a comparison: whether several devices pay off, by its Monte Carlo samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hetsim.analysis.confidence import TIE, Confidence

LIKELY = 0.8
"""Share of the samples in which a plan must be faster to be called worthwhile."""

PAYS = 1.05
"""Minimum speed-up by the point estimates, in addition."""

Answer = Literal[
    "pays", "does not pay", "too close to call", "no single device", "nothing split", "no plan"
]


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """Candidate plan.

    - `strategy`: ``single:NAME`` for a single device.
    - `cost_s`: objective by the point estimates.
    - `copies`: whether each of several devices has the whole model.
    """

    strategy: str
    cost_s: float
    devices: tuple[str, ...]
    copies: bool = False


@dataclass(frozen=True, slots=True)
class ComparisonVerdict:
    """Whether several devices pay off, and the plan to take.

    A plan on several devices pays where it is faster in at least LIKELY of the samples and its
    speed-up by the point estimates is at least PAYS. It does not pay where it is faster in at most
    1 - LIKELY of them, where it is likely faster but by less than PAYS, or where no plan uses
    several devices. Otherwise it is too close to call, and the simpler plan is the one to take.

    - `answer`: ``no single device``: none runs the whole model, so there is no baseline; ``nothing
    split``: only single devices were compared; ``no plan``: none is feasible.
    - `take`: plan to take.
    - `tried`: evaluated plan on several devices; None without one.
    - `over`: its baseline: the fastest single device or, for throughput, copies of the whole model
    that pay off themselves.
    - `gain`: speed-up of `tried` over `over` by the point estimates.
    - `chance`: share of the samples in which `tried` is faster than `over`; None without samples.
    - `sure`: uncertainty of the plan to take; None without samples.
    """

    answer: Answer
    take: PlanChoice | None = None
    tried: PlanChoice | None = None
    over: PlanChoice | None = None
    gain: float | None = None
    chance: float | None = None
    sure: Confidence | None = None

    @property
    def likely(self) -> bool:
        """Whether the evaluated plan is likely faster, by any margin."""
        likely = self.chance is None or self.chance >= LIKELY
        return likely and self.gain is not None and self.gain > 1.0


NO_PLAN = ComparisonVerdict("no plan")


def decide(
    single: PlanChoice,
    plans: Sequence[PlanChoice],
    samples: Mapping[str, NDArray[np.float64]],
) -> ComparisonVerdict:
    """Return whether plans on several devices pay off over a single device.

    Copies of the whole model are evaluated first, and splits against the result. Of several plans
    that pay off the cheapest counts, otherwise the most likely one.

    - `single`: fastest single device.
    - `plans`: plans on several devices.
    - `samples`: mapping of str to float array [N]. Cost of every plan in every sample, by strategy;
    empty without samples.
    """
    verdict = ComparisonVerdict("does not pay", single)
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


def _judged(
    tried: PlanChoice, over: PlanChoice, samples: Mapping[str, NDArray[np.float64]]
) -> ComparisonVerdict:
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
    return ComparisonVerdict(answer, None, tried, over, gain, chance)
