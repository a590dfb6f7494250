"""The factor by geometry: bells around centres, against their definition written out."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figure_builders import kernel_figures
from hetsim.cost.fitted import Fitted
from hetsim.cost.kernels.form import COLUMN, FEATURES, FORMS, coordinates, factors
from hetsim.cost.model import Kernel
from hetsim.graph.work import Work
from hetsim.hardware.catalog import load_device
from hetsim.hardware.kernel_figures import COORDINATES, Coordinate, Correction
from sweeps import examples

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


def test_places_are_octaves_of_sizes():
    found = place(CONV)
    assert (found["rows"], found["stride"], found["weights"]) == (6, 1, 9)
    assert found["channels"] == pytest.approx(math.log2(20))
    assert found["model"] == 24
    assert found["columns_by_16"] == pytest.approx(4 * math.log2(32 / 24))
    assert found["channels_by_4"] == 0
    assert found["exponential"] == pytest.approx(4)
    assert found["others"] == pytest.approx(2 * math.log2(2))


SIZES = ("rows", "columns", "depth", "groups", "stride", "dilation", "steps")
BYTES = ("read_bytes", "largest_read_bytes", "write_bytes", "weight_bytes", "exp_bytes")


@examples(quick=40, full=500)
@given(
    st.sampled_from(FORMS),
    st.fixed_dictionaries(
        {name: st.integers(0, 300) for name in SIZES}
        | {name: st.integers(1, 7) for name in ("window_h", "window_w")}
        | {name: st.sampled_from((0, 1, 3, 4, 2000, 10**7)) for name in BYTES}
    ),
    st.sampled_from((0.0, 2.0**17, 2.0**18 + 1, 2.0**30)),
)
def test_each_place_by_its_definition(form: str, sizes: dict[str, int], model: float) -> None:
    """Octaves of sizes from 1 on; padding and shares four times as fine, or twice."""

    def octaves(size: float) -> float:
        return math.log2(max(size, 1))

    def padded(size: float, to: int) -> float:
        whole = max(size, 1)
        return 4 * math.log2(-(-whole // to) * to / whole)

    area = sizes["window_h"] * sizes["window_w"]
    # Terms of a sum are channels times window; of fewer than one window one channel is left.
    sizes["depth"] *= area
    inputs, groups = max(sizes["depth"] // area, 1), max(sizes["groups"], 1)
    of_all = groups if form == "depthwise" else 1
    written = max(sizes["write_bytes"], 4)
    sizes["read_bytes"] += sizes["largest_read_bytes"]
    expected = {
        "rows": octaves(sizes["rows"]),
        "columns": octaves(sizes["columns"]),
        "channels": octaves(inputs),
        "window": octaves(area),
        "tallness": octaves(sizes["window_h"]) - octaves(sizes["window_w"]),
        "groups": octaves(groups),
        "stride": octaves(sizes["stride"]),
        "dilation": octaves(sizes["dilation"]),
        "columns_by_64": padded(sizes["columns"] * of_all, 64),
        "columns_by_16": padded(sizes["columns"] * of_all, 16),
        "channels_by_16": padded(inputs * of_all, 16),
        "channels_by_4": padded(inputs * of_all, 4),
        "exponential": 4 * math.log2(1 + sizes["exp_bytes"] / written),
        "others": 2 * math.log2(1 + (sizes["read_bytes"] - sizes["largest_read_bytes"]) / written),
        "read": octaves(sizes["largest_read_bytes"]),
        "written": octaves(written),
        "weights": octaves(sizes["weight_bytes"]),
        "model": max(octaves(model), 18),
        "steps": octaves(sizes["steps"]),
    }
    found = coordinates(row(form, **sizes)[None], np.array([model]))[0]
    assert dict(zip(COORDINATES, found.tolist(), strict=True)) == pytest.approx(expected)
    assert set(expected) == set(COORDINATES)


def test_a_factor_is_of_its_form_alone_and_at_most_a_hundred() -> None:
    """Up or down; the offsets of several forms do not mix."""
    forms = {"dense": 0.5, "matmul": 9.0, "concat": -9.0, "softmax": math.log(100.0)}
    told = tuple(Correction(form, offset, (), (), ()) for form, offset in forms.items())
    rows = np.stack([row(form) for form in (*forms, "other", "dense")])
    expected = [math.exp(0.5), 100.0, 0.01, 100.0, 1.0, math.exp(0.5)]
    assert factors(told, rows, MODEL_BYTES) == pytest.approx(expected)


def test_slopes_and_ends_are_by_coordinate() -> None:
    """Each coordinate ends where it was measured, and grows by its own slope."""
    axes = (
        Coordinate("rows", 1.0, 3.0, 1.0, 0.5),
        Coordinate("columns", 2.0, 4.0, 1.0, -0.25),
        Coordinate("model", 20.0, 30.0, 1.0, 0.125),
    )
    one = Correction("dense", 0.0, axes, (), ())
    for rows, columns, model in ((0, 0, 18), (2, 3, 25), (9, 9, 40), (2, 9, 18)):
        kernel = row("dense", rows=2.0**rows, columns=2.0**columns)
        log = 0.5 * min(max(rows, 1), 3) - 0.25 * min(max(columns, 2), 4)
        log += 0.125 * min(max(model, 20), 30)
        assert factors((one,), kernel[None], 2.0**model) == pytest.approx([math.exp(log)])


def test_channels_of_a_depthwise_convolution_lie_side_by_side():
    found = place(row("depthwise", columns=1, depth=9, window_h=3, window_w=3, groups=48))
    assert found["columns_by_16"] == found["channels_by_16"] == 0


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


def test_without_coordinates_the_offset_is_all():
    flat = Correction("dense", 0.1, (), (), ())
    assert factors((flat,), CONV[None], MODEL_BYTES) == pytest.approx([math.exp(0.1)])


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
