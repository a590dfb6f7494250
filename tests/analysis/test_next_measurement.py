"""The measurement that would most reduce the probability of a wrong choice."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

import hetsim
from hetsim.analysis.next_measurement import next_measurement, resolved
from hetsim.problem.problem import Problem
from hetsim.reporting.tables.comparison import next_measurement_text


def two_devices(sd: tuple[float, float], slower: float = 1.1) -> hetsim.Comparison:
    problem = Problem.from_arrays([[1.0, slower], [1.0, slower]], [(0, 1, 1)], sd=list(sd))
    return hetsim.compare(problem, ["single"], samples=2000)


def test_the_less_certain_device_is_to_be_measured() -> None:
    found = next_measurement(two_devices((0.1, 0.3)))
    assert found is not None
    assert (found.device, found.model_itself) == ("d1", True)
    lead = math.log(1.1)
    normal = NormalDist()
    assert found.wrong == pytest.approx(normal.cdf(-lead / math.hypot(0.1, 0.3)), abs=0.01)
    # What remains is d0's, but for the noise of a run: averaged over all that may be measured.
    known, rest = 0.3 * math.sqrt(0.09 / (0.09 + 0.05**2)), 0.1
    rest = math.hypot(rest, math.sqrt(0.09 - known**2))
    after = [
        normal.cdf(-abs(lead + known * normal.inv_cdf((k + 0.5) / 1000)) / rest)
        for k in range(1000)
    ]
    assert found.wrong_after == pytest.approx(sum(after) / 1000, abs=0.01)
    assert (
        "Measure this model on d1 next: this is expected to reduce it to "
        in next_measurement_text(found).plain
    )


def test_a_choice_that_is_clear_needs_no_measurement() -> None:
    found = next_measurement(two_devices((0.1, 0.1), slower=3.0))
    assert found is not None
    assert next_measurement_text(found).plain.endswith(
        "no single measurement reduces that by 1 point."
    )
    assert next_measurement(two_devices((0.0, 0.0))) is None


def test_another_network_resolves_less_than_the_model_itself() -> None:
    evidence = two_devices((0.1, 0.3)).problem.evidence[1]
    assert 0 < resolved(evidence, whole=False) < resolved(evidence, whole=True) < 1
