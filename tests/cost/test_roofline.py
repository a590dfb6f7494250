"""The roofline by closed forms, and the types that stand for those without a peak."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import pytest

from figure_builders import kernel_figures
from hetsim.cost.kernels.float_equivalent import figures_for, model_figures
from hetsim.cost.model import Kernel
from hetsim.cost.registry import cost_model
from hetsim.cost.roofline import Roofline, substitute_type
from hetsim.errors import UsageError
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.work import Work, graph_work
from hetsim.hardware.catalog import load_device
from hetsim.hardware.spec import DeviceSpec
from kernel_graphs import chain, graph_of

DEVICE = DeviceSpec(
    name="test",
    kind="npu",
    full_name="Test device",
    flops_per_s={"float32": 1e9, "float16": 4e9},
    bytes_per_s=1e8,
    memory_bytes=1 << 30,
    launch_s=1e-5,
    dispatch_s=1e-4,
    streams=1,
    idle_w=1.0,
    busy_w=2.0,
    efficiency={"conv": 0.5, "default": 0.25},
    memory_efficiency=0.5,
)


def work(flops: int, moved: int, op_class: str = "conv", dtype: str = "float32") -> Work:
    return Work(flops, moved, 0, 0, op_class, dtype, True)


def test_the_larger_of_both_roofs_plus_one_launch() -> None:
    bound_by_compute = Roofline().estimate(DEVICE, Kernel((work(10**6, 100),)))
    assert bound_by_compute.compute_s == 10**6 / (1e9 * 0.5)
    assert bound_by_compute.seconds == bound_by_compute.compute_s + 1e-5
    bound_by_memory = Roofline().estimate(DEVICE, Kernel((work(10, 10**6, "pooling"),)))
    assert bound_by_memory.memory_s == 10**6 / (1e8 * 0.5)
    assert bound_by_memory.seconds == bound_by_memory.memory_s + 1e-5
    assert bound_by_memory.provenance == "roofline"


def test_execution_dtype_changes_rate_and_bytes() -> None:
    half = replace(DEVICE, execution_dtype={"float32": "float16"})
    estimate = Roofline().estimate(half, Kernel((work(10**6, 1000),)))
    assert estimate.compute_s == 10**6 / (4e9 * 0.5)
    assert estimate.memory_s == 500 / (1e8 * 0.5)


def test_integers_keep_their_width_where_floats_are_executed_in_another() -> None:
    """Of 1,000 bytes, read, written and of weights, 200 are integers: 800 / 2 + 200 move."""
    half = replace(DEVICE, execution_dtype={"float32": "float16"})
    gather = Work(0, 500, 300, 200, "movement", "float32", True, integer_bytes=200)
    assert Roofline().estimate(half, Kernel((gather,))).memory_s == 600 / (1e8 * 0.5)
    assert Roofline().estimate(DEVICE, Kernel((gather,))).memory_s == 1000 / (1e8 * 0.5)


def test_fused_members_add_up_and_are_launched_once() -> None:
    members = (work(10**3, 5000), work(10, 2000, "elementwise"))
    estimate = Roofline().estimate(DEVICE, Kernel(members))
    assert estimate.memory_s == 7000 / (1e8 * 0.5)
    assert estimate.launch_s == 1e-5


def test_unknown_cost_model() -> None:
    with pytest.raises(UsageError, match="did you mean 'roofline'"):
        cost_model("roofine")


BARE = replace(
    load_device("nvidia-t4"), kernels={}, execution_dtype={}, quantized=frozenset(),
    efficiency={"default": 0.5, "conv": 0.25},
)  # fmt: skip
PEAKS = {"float32": 4e12, "float16": 8e12, "bfloat16": 6e12, "int8": 32e12, "int4": 64e12,
         "int16": 16e12, "float64": 1e12}  # fmt: skip
SOME = [PEAKS.keys() & {*names} for k in (1, 2, 3) for names in combinations(PEAKS, k)]


def device(names: set[str], **more: object) -> DeviceSpec:
    return replace(BARE, flops_per_s={name: PEAKS[name] for name in sorted(names)}, **more)  # type: ignore[arg-type]


def work_in(dtype: str, **more: int) -> Work:
    sizes = {"flops": 0, "read_bytes": 0, "write_bytes": 0, "weight_bytes": 0} | more
    return Work(**sizes, op_class="other", dtype=dtype, rule=True)


@pytest.mark.parametrize("dtype", sorted(ITEM_BITS))
def test_a_type_without_a_peak_is_computed_in_the_narrowest_that_holds_it(dtype: str) -> None:
    """Integers in what has their bits at least, floats in a wider float; else the slowest."""
    bits = ITEM_BITS[dtype]
    for names in SOME:
        spec = device(names)
        holding = [
            name
            for name in names
            if ("float" in name and ITEM_BITS[name] > bits)
            or ("float" not in dtype and ITEM_BITS[name] >= bits)
        ]
        found = substitute_type(spec, dtype)
        if not bits or not holding or dtype == "bool":
            assert PEAKS[found] == min(PEAKS[name] for name in names)
            continue
        assert found in holding
        narrowest = min(ITEM_BITS[name] for name in holding)
        fastest = max(PEAKS[name] for name in holding if ITEM_BITS[name] == narrowest)
        assert (ITEM_BITS[found], PEAKS[found]) == (narrowest, fastest)
        if dtype not in names:
            estimate = Roofline().estimate(spec, Kernel((work_in(dtype, flops=1000),)))
            assert estimate.compute_s == 1000 / (PEAKS[found] * 0.5)
            assert estimate.provenance == f"roofline; no {dtype} peak, taken as {found}"


@pytest.mark.parametrize("dtype", sorted(PEAKS))
def test_a_type_without_figures_takes_those_of_the_nearest(dtype: str) -> None:
    """Floats of floats, integers of integers; then by octaves of size, then the wider."""
    for names in SOME:
        known = {name: kernel_figures(name) for name in sorted(names)}
        spec = device(set(PEAKS), kernels=known)
        figures, note = figures_for(spec, dtype)
        if dtype in names:
            assert (figures, note) == (known[dtype], "")
            continue

        def apart(name: str) -> tuple[bool, float, int]:
            octaves = abs(math.log2(ITEM_BITS[name] / ITEM_BITS[dtype]))
            return ("float" in name) != ("float" in dtype), octaves, -ITEM_BITS[name]

        best = min(map(apart, names))
        assert apart(figures.precision) == best
        ratio = PEAKS[dtype] / PEAKS[figures.precision]
        rate = known[figures.precision].value("rate_tflops")
        assert figures.value("rate_tflops") == pytest.approx(rate * ratio)
        assert f"no {dtype} figures, those of {figures.precision}" in note


def test_integers_are_what_a_device_executes_in_or_what_the_model_says_where_it_computes_them(
) -> None:  # fmt: skip
    floats = chain("Conv", "Relu")
    nodes = [("DequantizeLinear", ["i", "s", "z"], ["a"], {}), ("Relu", ["a"], ["y"], {})]
    shapes = {"i": (4,), "a": (4,), "y": (4,), "s": (), "z": ()}
    integers = graph_of(nodes, shapes, constants=("s", "z"), dtypes=dict.fromkeys("iz", "int8"))
    known = {name: kernel_figures(name) for name in ("float32", "int8")}
    for graph, executes, quantized, precision in (
        (floats, None, False, "float32"), (floats, None, True, "float32"),
        (integers, None, False, "float32"), (integers, None, True, "int8"),
        (floats, "int8", False, "int8"), (integers, "float16", False, "float32"),
    ):  # fmt: skip
        ops = frozenset({"Relu"}) if quantized else frozenset()
        spec = device(set(PEAKS), kernels=known, executes=executes, quantized=ops)
        found = model_figures(spec, graph, graph_work(graph))
        assert found is not None
        assert found.precision == precision
    assert model_figures(BARE, floats, graph_work(floats)) is None
