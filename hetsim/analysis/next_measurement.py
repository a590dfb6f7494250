"""Measurement that would most reduce the probability that the choice of a plan is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hetsim.analysis.confidence import costs_over, draw
from hetsim.problem.measured import factor_sd, network_sd
from hetsim.problem.parts import PROFILED_SD, Evidence

if TYPE_CHECKING:
    from hetsim.analysis.comparison import Comparison
    from hetsim.problem.plan import Plan

LEAST_SHARE = 0.01
"""Reduction of a probability below which a measurement is not worthwhile."""

_STEPS = 401
_NORMAL = NormalDist()
_QUANTILES = np.array([_NORMAL.inv_cdf((k + 0.5) / _STEPS) for k in range(_STEPS)])


@dataclass(frozen=True, slots=True)
class NextMeasurement:
    """Measurement that would most help to choose between the two best plans.

    - `device`: device to measure on.
    - `model_itself`: whether to measure the model in question there; else any network that the
    device runs whole.
    - `taken`, `other`: strategies of the best plan, and of the one that is most often faster.
    - `wrong`, `wrong_after`: probability that the other one is faster than the one taken, now and
    expected after the measurement.
    """

    device: str
    model_itself: bool
    taken: str
    other: str
    wrong: float
    wrong_after: float


def next_measurement(comparison: Comparison) -> NextMeasurement | None:
    """Return the measurement that most reduces the probability of a wrong choice.

    None without samples, or without two different plans. The log ratio of two plans' costs and the
    log of a device's factor are assumed jointly normal, with the moments of the samples. O(N E log
    E) for the tasks E of all plans.
    """
    problem = comparison.problem
    rows = [(row.strategy, row.plan) for row in comparison.rows if row.plan is not None]
    if not comparison.draws or problem.slower is not None or comparison.sustained or len(rows) < 2:
        return None
    draws = draw(problem.uncertainty, comparison.draws, comparison.draw_seed)

    def logs(plan: Plan) -> NDArray[np.float64]:
        return np.asarray(np.log(costs_over(plan, draws, comparison.objective)))

    (taken, best), others = rows[0], rows[1:]
    best_logs = logs(best)
    beside = [(name, best_logs - logs(plan)) for name, plan in others if plan.groups != best.groups]
    if not beside:
        return None
    other, lead = max(beside, key=lambda one: _wrong(one[1].mean(), one[1].std()))
    wrong = _wrong(lead.mean(), lead.std())
    found: NextMeasurement | None = None
    for p, evidence in enumerate(problem.evidence):
        factors = np.log(draws.devices[:, p])
        if factors.std() == 0.0 or lead.std() == 0.0:
            continue
        whole = not problem.unsupported(p, range(problem.n))
        if not whole and evidence.measured_here is not None:
            continue
        tied = float(np.corrcoef(lead, factors)[0, 1]) ** 2 * resolved(evidence, whole=whole)
        after = _expected(lead.mean(), lead.std(), tied)
        if found is None or after < found.wrong_after:
            found = NextMeasurement(
                problem.devices[p], whole, taken, other, wrong, min(after, wrong)
            )
    return found


def resolved(evidence: Evidence, *, whole: bool) -> float:
    """Return the share of the variance of a device's factor that a measurement resolves.

    For the model itself (`whole`), or another network.
    """
    variance = evidence.sd**2
    if whole:
        return variance / (variance + PROFILED_SD**2)
    device, network = factor_sd(evidence) ** 2, network_sd(evidence) ** 2
    return min(device**2 / ((device + network + PROFILED_SD**2) * variance), 1.0)


def _wrong(mean: float, sd: float) -> float:
    """Return the probability that a normal log ratio has the less likely sign."""
    return _NORMAL.cdf(-abs(mean) / sd) if sd > 0 else 0.0


def _expected(mean: float, sd: float, share: float) -> float:
    """Return the expectation of ``_wrong`` after a `share` of the variance is resolved."""
    means: Sequence[float] = (mean + sd * share**0.5 * _QUANTILES).tolist()
    rest = sd * max(1.0 - share, 0.0) ** 0.5
    return sum(_wrong(one, rest) for one in means) / _STEPS
