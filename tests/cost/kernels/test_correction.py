"""The factor by geometry: bells around centres, against their definition written out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from figure_builders import kernel_figures
from hetsim.cost.fitted import Fitted
from hetsim.cost.kernels.formula import COLUMN, FEATURES, FORMS, coordinates, factors
from hetsim.cost.model import Kernel
from hetsim.graph.work import Work
from hetsim.hardware.catalog import load_device
from hetsim.hardware.kernel_figures import COORDINATES, Coordinate, Correction

MODEL_BYTES = 2.0**24


def row(form: str, **sizes: float) -> np.ndarray:
    made = np.ones(len(FEATURES))
    for name, size in {"form": FORMS.index(form), **sizes}.items():
        made[COLUMN[name]] = size
    return made


def place(one: np.ndarray) -> dict[str, float]:
    found = coordinates(one[None], np.array([MODEL_BYTES]))[0]
    return dict(zip(COORDINATES, found.tolist(), strict=True))


CONV = row(
    "dense", rows=64, columns=24, depth=9 * 20, window_h=3, window_w=3, stride=2,
    read_bytes=3000, largest_read_bytes=1000, write_bytes=2000, weight_bytes=512, exp_bytes=2000,
)  # fmt: skip
ONE = Correction(
    "dense", 0.1,
    (Coordinate("rows", 0.0, 8.0, 2.0, 0.01), Coordinate("columns", 2.0, 6.0, 0.5, 0.0)),
    ((5.0, 4.0), (7.0, 5.0)), (0.4, -0.2),
)  # fmt: skip


def test_a_factor_is_of_its_form_alone_and_at_most_a_hundred() -> None:
    """Up or down; the offsets of several forms do not mix."""
    forms = {"dense": 0.5, "matmul": 9.0, "concat": -9.0, "softmax": math.log(100.0)}
    told = tuple(Correction(form, offset, (), (), ()) for form, offset in forms.items())
    rows = np.stack([row(form) for form in (*forms, "other", "dense")])
    expected = [math.exp(0.5), 100.0, 0.01, 100.0, 1.0, math.exp(0.5)]
    assert factors(told, rows, MODEL_BYTES) == pytest.approx(expected)


def test_the_factor_is_the_sum_of_bells():
    at = place(CONV)
    log = 0.1 + 0.01 * at["rows"]
    for centre, weight in zip(ONE.centres, ONE.weights, strict=True):
        apart = ((at["rows"] - centre[0]) / 2) ** 2 + ((at["columns"] - centre[1]) / 0.5) ** 2
        log += weight * math.exp(-apart / 2)
    other = row("matmul", rows=64, columns=24)
    found = factors((ONE,), np.stack([CONV, other]), MODEL_BYTES)
    assert found == pytest.approx([math.exp(log), 1.0])
    assert factors((), np.stack([CONV, other]), MODEL_BYTES).tolist() == [1.0, 1.0]


def test_beyond_what_was_measured_it_is_as_at_the_end():
    end, far = CONV.copy(), CONV.copy()
    end[COLUMN["rows"]], far[COLUMN["rows"]] = 2.0**8, 2.0**40
    at_end, beyond = factors((ONE,), np.stack([end, far]), MODEL_BYTES)
    assert at_end == beyond


def test_a_price_is_the_formula_times_the_factor():
    plain = kernel_figures("float32")
    spec = replace(load_device("nvidia-t4"), execution_dtype={}, kernels={"float32": plain})
    read = Coordinate("read", 10.0, 30.0, 1.0, 0.0)
    whole = Correction("other", 0.1, (read,), ((20.0,),), (0.3,))
    corrected = replace(spec, kernels={"float32": replace(plain, corrections=(whole,))})
    kernel = Kernel((Work(0, 2**20, 2**20, 0, "other", "float32", True),))
    before, after = Fitted().estimate(spec, kernel), Fitted().estimate(corrected, kernel)
    assert after.seconds / before.seconds == pytest.approx(math.exp(0.4))
    assert after.memory_s / before.memory_s == pytest.approx(math.exp(0.4))
    assert after.launch_s / before.launch_s == pytest.approx(math.exp(0.4))
