"""The formula against the same told in NumPy, its slopes, and what must hold of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from figure_builders import kernel_figures
from hetsim.cost.kernels.formula import (
    COLUMN,
    FEATURES,
    FORMS,
    LEAST_STREAMED,
    PRODUCTS,
    kernel_parts,
    kernel_seconds,
    streamed_share,
)
from hetsim.cost.kernels.networks import (
    Networks,
    kernels_seconds,
    log_total,
    log_total_and_gradient,
)
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS
from sweeps import examples

VALUES = np.array(kernel_figures().values)
CONVOLUTIONS = ("dense", "pointwise", "depthwise", "grouped")
WORK = ("flops", "read_bytes", "write_bytes", "weight_bytes", "exp_bytes")
RATES = ("rate_tflops", "bandwidth_gbytes_s", "weights_gbytes_s")


def row(form: str, **features: float) -> NDArray[np.float64]:
    """A row of the features given; sizes are 1 and bytes 0 where nothing is said."""
    sizes = dict.fromkeys(FEATURES, 1.0)
    sizes |= dict.fromkeys((*WORK, "largest_read_bytes"), 0.0)
    sizes |= {"form": float(FORMS.index(form)), **features}
    return np.array([sizes[name] for name in FEATURES])


def convolution(
    channels: int, outputs: int, side: int, window: int = 3, *, batch: int = 1, item: int = 4
) -> NDArray[np.float64]:
    """A convolution of stride 1 on a square image."""
    positions, depth = batch * side * side, channels * window * window
    return row(
        "pointwise" if window == 1 else "dense",
        flops=2 * positions * depth * outputs,
        rows=positions,
        columns=outputs,
        depth=depth,
        positions=side * side,
        window_h=window,
        window_w=window,
        read_bytes=positions * channels * item,
        largest_read_bytes=positions * channels * item,
        write_bytes=positions * outputs * item,
        weight_bytes=depth * outputs * item,
    )


@st.composite
def rows(draw: st.DrawFn) -> NDArray[np.float64]:
    form = draw(st.sampled_from(FORMS))
    size = st.integers(1, 2000)
    nbytes = st.integers(0, 10**8)
    features: dict[str, float] = {
        "read_bytes": draw(nbytes),
        "write_bytes": draw(nbytes),
        "exp_bytes": draw(nbytes),
    }
    features["largest_read_bytes"] = draw(st.integers(0, int(features["read_bytes"])))
    if form in PRODUCTS:
        features |= {name: draw(size) for name in ("rows", "columns", "depth", "groups")}
        if form in (*CONVOLUTIONS, "transposed"):
            side = draw(st.sampled_from((1, 3, 5)))
            features |= {"window_h": side, "window_w": side}
            features["depth"] *= 1 if form == "transposed" else side * side
            features |= {name: draw(st.integers(1, 2)) for name in ("stride", "dilation")}
            features["positions"] = draw(size)
            features["rows"] = features["positions"] * draw(st.sampled_from((1, 2, 8)))
        macs = np.prod([features[name] for name in ("rows", "columns", "depth", "groups")])
        features |= {"flops": 2.0 * float(macs), "weight_bytes": draw(nbytes)}
        features["steps"] = draw(size) if form == "recurrent" else 1
    return row(form, **features)


@st.composite
def figures(draw: st.DrawFn) -> NDArray[np.float64]:
    shift = st.floats(-1.5, 1.5)
    return VALUES * np.exp([draw(shift) for _ in PARAMETERS])


shares = st.floats(LEAST_STREAMED, 1.0)


def up_to(tile: int, size: float) -> float:
    """How many times a size whole tiles are."""
    return float(tile * np.ceil(size / tile) / size)


def told_in_numpy(values: NDArray[np.float64], row: NDArray[np.float64], streamed: float) -> float:
    """The formula as ``docs/decisions/20`` has it, term by term."""
    v = {one.name: values[INDEX[one.name]] for one in PARAMETERS}
    k: dict[str, Any] = {name: row[COLUMN[name]] for name in FEATURES}
    form = FORMS[int(k["form"])]
    arithmetic = 0.0
    channels = k["depth"] / (1 if form == "transposed" else k["window_h"] * k["window_w"])
    if form in PRODUCTS:
        relative = {
            "dense": 1, "transposed": 1, "recurrent": v["matmul"], "attention": v["batched"],
        }  # fmt: skip
        of_many = 1 / (1 + v["fill_rows"] / k["rows"])
        power = {"grouped": 32 / (32 + k["columns"]), "matmul": of_many, "recurrent": of_many}
        of_form = relative[form] if form in relative else v[form]
        rate = v["rate_tflops"] * of_form ** power.get(form, 1)
        plain = (k["window_h"], k["window_w"], k["stride"], k["dilation"]) == (3, 3, 1, 1)
        if form == "dense" and plain and channels >= 8:
            gain = 1.6 / ((1 + 24 / channels) * (1 + 24 / k["columns"]) * (1 + 64 / k["rows"]))
            rate *= np.exp(gain * np.log(v["winograd"]))
        halves = [
            v["fill_rows"] / k["rows"],
            v["fill_outputs"] / np.prod([k["rows"], k["columns"], k["groups"]]),
        ]
        if form != "depthwise":
            halves += [
                v["fill_columns"] / k["columns"],
                v["fill_depth"] / k["depth"],
                v["channel_granule"] / channels,
            ]
        arithmetic = k["flops"] / rate * np.prod([1 + half for half in halves])
    tiles = {"tile_compute": 1.0, "tile_traffic": 1.0}
    if form in CONVOLUTIONS:
        own = k["groups"] if form == "depthwise" else 1
        of_image = (up_to(8, k["positions"] ** 0.5) ** 2) if k["positions"] > 1 else 1
        of_made, of_taken = up_to(32, own * k["columns"]), up_to(32, own * channels)
        once = of_made if form == "depthwise" else of_made * of_taken
        tiles = {
            "tile_compute": of_image * once,
            "tile_traffic": of_image * (of_made * of_taken) ** 0.5,
        }
    computed, passed = (padding ** np.log2(v[name]) for name, padding in tiles.items())
    moved = k["read_bytes"] + k["write_bytes"]
    if form in CONVOLUTIONS:
        of_input = k["largest_read_bytes"] / max(channels * k["groups"], 1)
        of_output = k["write_bytes"] / (k["columns"] * k["groups"])
        moved += v["channel_granule"] * (of_input + of_output)
    near = 1 - moved / (moved + v["cache_mib"])
    dearer = near + (1 - near) / v["beyond_cache"]
    instead = {"reduction": "normalization", "gather": "movement", "other": "elementwise"}
    traffic = 1 if form in PRODUCTS else v[instead.get(form, form)]
    traffic *= passed * (v["movement"] if form == "concat" else 1)
    activations = moved * traffic * dearer + k["exp_bytes"] * v["exponential"]
    weights = k["weight_bytes"] * streamed / v["weights_gbytes_s"]
    parts = np.array([arithmetic * computed, activations / v["bandwidth_gbytes_s"], weights])
    launch = v["launch_us"] * k["steps"] * (1 if form in PRODUCTS else v["launch_other"])
    whole = np.linalg.norm(parts / max(parts.max(), 1e-300), v["overlap"])
    return float(parts.max() * whole + launch)


@examples(quick=60, full=2000)
@given(figures(), rows(), shares)
def test_it_is_the_formula_told_in_numpy(
    values: NDArray[np.float64], kernel: NDArray[np.float64], streamed: float
) -> None:
    seconds = kernel_seconds(values.tolist(), kernel.tolist(), streamed)
    assert seconds == pytest.approx(told_in_numpy(values, kernel, streamed), rel=1e-12)
    whole, *parts, launch = kernel_parts(values, kernel, streamed)
    assert whole == seconds
    assert max(parts) + launch <= whole * (1 + 1e-12)
    if values[INDEX["overlap"]] >= 1:
        assert whole <= (sum(parts) + launch) * (1 + 1e-12)


@examples(quick=20, full=500)
@given(figures(), st.lists(rows(), min_size=1, max_size=6), shares)
def test_machine_code_gives_the_same(
    values: NDArray[np.float64], kernels: list[NDArray[np.float64]], streamed: float
) -> None:
    each = [kernel_seconds(values.tolist(), one.tolist(), streamed) for one in kernels]
    found = kernels_seconds(values, np.array(kernels), streamed)
    assert found == pytest.approx(each, rel=1e-14)


@examples(quick=20, full=500)
@given(
    figures(),
    st.lists(st.tuples(rows(), st.integers(1, 9)), min_size=1, max_size=6),
    st.integers(1, 10**9),
    st.integers(0, 10**7),
)
def test_a_network_is_its_dispatch_its_io_and_its_kernels(
    values: NDArray[np.float64],
    kernels: list[tuple[NDArray[np.float64], int]],
    weight_bytes: int,
    io_bytes: int,
) -> None:
    stacked = np.array([one for one, _ in kernels])
    counts = np.array([count for _, count in kernels], dtype=np.float64)
    networks = Networks.of([(stacked, counts, weight_bytes, io_bytes)] * 2)
    streamed = streamed_share(values[INDEX["weights_on_chip_mib"]], weight_bytes)
    seconds = sum(count * kernel_seconds(values, one, streamed) for one, count in kernels)
    seconds += values[INDEX["dispatch_us"]] + io_bytes / values[INDEX["io_gbytes_s"]]
    assert np.exp(log_total(np.log(values), networks)) == pytest.approx([seconds] * 2, rel=1e-12)
    repeated = np.repeat(stacked, counts.astype(int), axis=0)
    apart = Networks.of([(repeated, np.ones(len(repeated)), weight_bytes, io_bytes)])
    assert log_total(np.log(values), apart)[0] == pytest.approx(np.log(seconds), rel=1e-12)


@examples(quick=15, full=500)
@given(
    st.lists(figures(), min_size=1, max_size=2),
    st.lists(
        st.tuples(
            st.lists(rows(), min_size=1, max_size=4), st.integers(0, 10**9), st.integers(0, 10**7)
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_slopes_are_what_differences_tend_to(
    sets: list[NDArray[np.float64]], given_networks: list[tuple[list[Any], int, int]]
) -> None:
    networks = Networks.of(
        [
            (np.array(kernels), np.full(len(kernels), 2.0), w, io)
            for kernels, w, io in given_networks
        ]
    )
    logs = np.log(sets)
    which = np.arange(len(networks)) % len(sets)
    _, slopes = log_total_and_gradient(logs, networks, which)
    step = 1e-5
    kink = np.array(
        [
            abs(sets[s][INDEX["weights_on_chip_mib"]] / max(w, 1) - (1 - LEAST_STREAMED)) < 1e-3
            for s, (_, w, _) in zip(which, given_networks, strict=True)
        ]
    )
    for index in range(len(PARAMETERS)):
        shift = np.zeros(len(PARAMETERS))
        shift[index] = step
        above, below = (log_total(logs + sign * shift, networks, which) for sign in (1, -1))
        rise = (above - below) / (2 * step)
        assert slopes[~kink, index] == pytest.approx(rise[~kink], abs=1e-7), PARAMETERS[index].name


@examples(quick=40, full=1000)
@given(figures(), rows(), shares, st.sampled_from(WORK), st.sampled_from(RATES), st.floats(1.1, 10))
def test_it_is_positive_grows_with_work_and_falls_with_every_rate(
    values: NDArray[np.float64],
    kernel: NDArray[np.float64],
    streamed: float,
    feature: str,
    rate: str,
    times: float,
) -> None:
    more, faster = kernel.copy(), values.copy()
    more[COLUMN[feature]] *= times
    faster[INDEX[rate]] *= times
    before = kernel_seconds(values, kernel, streamed)
    assert values[INDEX["launch_us"]] * min(1, values[INDEX["launch_other"]]) <= before < np.inf
    assert kernel_seconds(values, more, streamed) >= before * (1 - 1e-12)
    after = kernel_seconds(faster, kernel, streamed)
    # Ten times the rate saves nine tenths at most.
    assert before / times * (1 - 1e-12) <= after <= before * (1 + 1e-12)


def test_weights_that_stay_on_the_chip_are_hardly_read() -> None:
    assert streamed_share(6e6, 24e6) == 0.75
    assert streamed_share(6e6, 6e6) == streamed_share(6e6, 1.0) == LEAST_STREAMED
    assert streamed_share(6e6, 0.0) == 1.0
    kernel = row("matmul", weight_bytes=4e9, rows=1, columns=1000, depth=1000)
    weights = [kernel_parts(VALUES, kernel, share)[3] for share in (1.0, 0.25)]
    assert weights == pytest.approx([0.1, 0.025])


def test_every_parameter_matters_to_some_kernel() -> None:
    kernels = [row(form, exp_bytes=1e5, read_bytes=1e6, write_bytes=1e6) for form in FORMS]
    for kernel in kernels:
        if FORMS[int(kernel[0])] in PRODUCTS:
            kernel[[COLUMN[name] for name in ("rows", "columns", "depth")]] = 64.0
            kernel[[COLUMN["flops"], COLUMN["weight_bytes"]]] = 1e8, 1e6
    kernels += [convolution(64, 64, 56), convolution(60, 60, 55)]
    networks = Networks.of([(np.array(kernels), np.ones(len(kernels)), 1e8, 1e6)])
    _, slopes = log_total_and_gradient(np.log(VALUES), networks)
    assert [one.name for one, slope in zip(PARAMETERS, slopes[0], strict=True) if slope == 0] == []
