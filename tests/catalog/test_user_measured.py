"""The judging of a few measurements on a device, on devices whose errors are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from catalog.user_measured import Ran, _errors
from hetsim.problem.measured import OF_DEVICE, Alone
from hetsim.problem.parts import Evidence


def devices(count: int, networks: int, sd: float) -> list[list[Ran]]:
    """Devices that differ as the model of errors says: one factor each, and one a network."""
    rng = np.random.default_rng(0)
    evidence = Evidence("d", "d", "prior", sd)
    found = []
    for _ in range(count):
        factor = math.sqrt(OF_DEVICE) * sd * rng.standard_normal()
        ran = []
        for n in range(networks):
            error = factor + math.sqrt(1 - OF_DEVICE) * sd * rng.standard_normal()
            ran.append(Ran(Alone(str(n), 1.0, 1, evidence, "", ""), math.exp(error)))
        found.append(ran)
    return found


@pytest.mark.parametrize("count", [0, 1, 3])
def test_intervals_hold_80_percent_where_the_model_of_errors_does(count: int) -> None:
    errors, sds = _errors(devices(100, 12, 0.5), count)
    assert np.mean(np.abs(errors) <= 1.2816 * sds) == pytest.approx(0.8, abs=0.05)
    rest = 1 - OF_DEVICE
    share = 1.0 if count == 0 else rest + 1 / (1 / OF_DEVICE + count / (rest + 0.01))
    assert np.sqrt(np.mean(errors**2)) == pytest.approx(0.5 * math.sqrt(share), rel=0.08)
