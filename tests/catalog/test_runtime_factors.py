"""Factors between runtimes, learned from chips that ran both."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from catalog.runtimes import Both, fitted, left_out
from hetsim.hardware.files.runtimes import runtime_factors
from hetsim.hardware.kernel_figures import HALF_WIDTH

EFFECTS = {"ncnn": 0.0, "onnxruntime": 0.5, "pytorch": 1.6, "openvino": 0.2}
CHIPS, NETWORKS = 8, 10


def ran(unit: str, pairs: list[tuple[str, str]], launch_s: float = 0.0) -> Iterator[Both]:
    """Yield chips that ran pairs of runtimes: those of EFFECTS, 0.2 between chips and networks."""
    rng = np.random.default_rng(7)
    for at, (base, runtime) in enumerate(pairs):
        for chip in range(CHIPS):
            own = EFFECTS[runtime] - EFFECTS[base] + 0.2 * rng.standard_normal()
            for network in range(NETWORKS):
                predicted_s, launches = 10 ** rng.uniform(-3.5, -1), float(rng.integers(20, 200))
                took_s = predicted_s * math.exp(own + 0.2 * rng.standard_normal())
                yield Both(
                    unit, "float32", base, runtime, f"chip {at} {chip}", f"network {network}",
                    took_s + launches * launch_s, predicted_s, 0.05, launches,
                )  # fmt: skip


def test_factors_are_found_either_way_and_on_processors_across_pairs() -> None:
    every = list(ran("cpu", [("ncnn", "onnxruntime"), ("openvino", "onnxruntime")]))
    found = fitted(every)
    for base, runtime, chips in (
        ("ncnn", "onnxruntime", CHIPS), ("onnxruntime", "ncnn", CHIPS), ("ncnn", "openvino", 0),
    ):  # fmt: skip
        one = found["cpu", "float32", base, runtime]
        assert math.log(one.factor) == pytest.approx(EFFECTS[runtime] - EFFECTS[base], abs=0.3)
        assert one.chips == chips
    direct, across = (found["cpu", "float32", "ncnn", name] for name in ("onnxruntime", "openvino"))
    assert across.sd > direct.sd > 0.2
    errors = [(one.error(by.factor, by.launch_s), by.sd) for one, by in left_out(every)]
    assert len(errors) == len(every)
    assert 0.7 < np.mean([abs(error) <= HALF_WIDTH * sd for error, sd in errors]) < 0.97


def test_frameworks_on_graphics_take_longer_by_kernel_and_no_pair_is_across() -> None:
    pairs = [("openvino", "pytorch"), ("ncnn", "pytorch")]
    found = fitted(list(ran("gpu", pairs, launch_s=6e-5)))
    one = found["gpu", "float32", "openvino", "pytorch"]
    assert one.launch_s == pytest.approx(6e-5, rel=0.7)
    assert math.log(one.factor) == pytest.approx(1.4, abs=0.4)
    assert ("gpu", "float32", "openvino", "ncnn") not in found


def test_factors_of_the_catalog_say_how_many_chips_ran_both() -> None:
    assert len(runtime_factors()) > 30
    for one in runtime_factors():
        assert one.base != one.runtime
        assert 0.1 < one.factor < 10
        assert one.sd >= 0.1
        assert bool(one.chips) == bool(one.networks)
        assert one.chips or one.unit == "cpu"
