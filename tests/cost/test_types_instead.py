"""Types without a peak or figures: which other stands for them, over all types there are."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import pytest

from figure_builders import kernel_figures
from hetsim.cost.fitted import Fitted
from hetsim.cost.kernels.as_floats import executed_dtype, figures_for, model_figures
from hetsim.cost.kernels.form import COLUMN, FEATURES, FORMS, PRODUCTS, kernel_parts
from hetsim.cost.model import Kernel
from hetsim.cost.roofline import Roofline, instead, scale
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.work import Work, graph_work
from hetsim.graph.work.rule import Product
from hetsim.hardware.catalog import load_device
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS
from hetsim.hardware.spec import DeviceSpec
from kernel_graphs import chain, graph_of

BARE = replace(
    load_device("nvidia-t4"), kernels={}, execution_dtype={}, quantized=frozenset(),
    efficiency={"default": 0.5, "conv": 0.25},
)  # fmt: skip
PEAKS = {"float32": 4e12, "float16": 8e12, "bfloat16": 6e12, "int8": 32e12, "int4": 64e12,
         "int16": 16e12, "float64": 1e12}  # fmt: skip
SOME = [PEAKS.keys() & {*names} for k in (1, 2, 3) for names in combinations(PEAKS, k)]


def device(names: set[str], **more: object) -> DeviceSpec:
    return replace(BARE, flops_per_s={name: PEAKS[name] for name in sorted(names)}, **more)  # type: ignore[arg-type]


def work(dtype: str, **more: int) -> Work:
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
        found = instead(spec, dtype)
        if not bits or not holding or dtype == "bool":
            assert PEAKS[found] == min(PEAKS[name] for name in names)
            continue
        assert found in holding
        narrowest = min(ITEM_BITS[name] for name in holding)
        fastest = max(PEAKS[name] for name in holding if ITEM_BITS[name] == narrowest)
        assert (ITEM_BITS[found], PEAKS[found]) == (narrowest, fastest)
        if dtype not in names:
            estimate = Roofline().estimate(spec, Kernel((work(dtype, flops=1000),)))
            assert estimate.compute_s == 1000 / (PEAKS[found] * 0.5)
            assert estimate.provenance == f"roofline; no {dtype} peak, taken as {found}"


def test_a_processor_moves_both_forms_of_a_float_that_it_converts() -> None:
    """A CPU without a peak for it; others and integers move what there is."""
    for kind, dtype, names, factor in (
        ("cpu", "float16", {"float32"}, 3.0), ("cpu", "float16", {"float16", "float32"}, 1.0),
        ("cpu", "bfloat16", {"float64"}, 5.0), ("cpu", "float64", {"float32"}, 1.0),
        ("cpu", "int8", {"float32"}, 1.0), ("cpu", "float32", {"float16"}, 1.0),
        ("gpu", "float16", {"float32"}, 1.0), ("npu", "float16", {"float32"}, 1.0),
    ):  # fmt: skip
        assert scale(device(names, kind=kind), work(dtype)) == factor, (kind, dtype)
    half = device({"float16"}, kind="cpu", execution_dtype={"float32": "float16"})
    assert scale(half, work("float32")) == 0.5
    assert scale(half, work("float64")) == 1.0
    wide = device({"float32"}, execution_dtype={"float16": "float32"})
    assert scale(wide, work("float16")) == 2.0


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


def test_figures_of_a_type_without_a_peak_are_taken_as_they_are() -> None:
    known = {"float16": kernel_figures("float16")}
    spec = device({"float32"}, kernels=known)
    figures, note = figures_for(spec, "float32")
    assert (figures, note) == (known["float16"], "no float32 figures, taken as float16")
    figures, note = figures_for(device({"float16"}, kernels=known), "int64")
    assert (figures, note) == (known["float16"], "no int64 peak, taken as float16")


def test_most_of_the_arithmetic_says_the_type() -> None:
    spec = device({"float32"})
    works = [work("float16", flops=5), work("float32", flops=3), work("float32", flops=3)]
    assert executed_dtype(spec, works) == "float32"
    assert executed_dtype(spec, [work("float16", flops=5), work("float32", flops=5)]) == "float16"
    assert executed_dtype(spec, [work("int64"), work("float32")]) == "int64"
    assert executed_dtype(spec, []) == "float32"
    half = device({"float32"}, execution_dtype={"float32": "float16"})
    assert executed_dtype(half, works) == "float16"
    assert executed_dtype(half, []) == "float16"


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


WEAKEST = "prior"
HARDLY = {0: {"winograd"}, 1: {"exponential", "channel_granule"}, 2: set(), 3: set()}
"""Parameters that only bend a part: their status is not that of the whole."""


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("part", range(4))
def test_the_status_is_that_of_every_figure_on_which_the_largest_part_depends(
    form: str, part: int
) -> None:
    """By what moves the part where the parameter is another: arithmetic, activations, weights."""
    product = form in PRODUCTS
    if part == 0 and not product:
        return
    sizes = Product(form, 50, 40, 30, 3, window=(3, 3), strides=(1, 1), dilations=(1, 1),
                    operand_elements=1000)  # fmt: skip
    large = {0: {"flops": 10**13}, 1: {"read_bytes": 10**11, "write_bytes": 10**11},
             2: {"weight_bytes": 10**11}, 3: {}}[part]  # fmt: skip
    one = replace(
        work("float32", read_bytes=8, write_bytes=8),
        form=form, product=sizes if product else None, **large,
    )  # fmt: skip
    if part == 0 and form not in ("recurrent", "attention"):
        one = replace(one, product=replace(sizes, rows=5 * 10**6, columns=1000))
    figures = kernel_figures("float32", launch_us=4000.0 if part == 3 else 4.0)
    spec = device(set(PEAKS), kernels={"float32": figures})
    row = [1.0] * len(FEATURES)
    row[COLUMN["form"]] = float(FORMS.index(form))
    named = {
        "flops": 1e9, "rows": 50.0, "columns": 40.0, "depth": 270.0, "groups": 3.0,
        "window_h": 3.0, "window_w": 3.0, "read_bytes": 1e7, "write_bytes": 1e7,
        "weight_bytes": 1e7, "exp_bytes": 1e6, "largest_read_bytes": 5e6, "positions": 50.0,
    }  # fmt: skip
    if not product:
        named |= {"flops": 0.0, "depth": 1.0}
    for name, value in named.items():
        row[COLUMN[name]] = value
    assert Fitted().estimate(spec, Kernel((one,))).provenance == "fitted; test-kin; fitted"
    for parameter in PARAMETERS:
        index, name = INDEX[parameter.name], parameter.name
        values = list(figures.values)
        before = kernel_parts(values, row, 1.0)[1 + part]
        values[index] *= 1.5
        moves = kernel_parts(values, row, 1.0)[1 + part] != before
        if part == 2 and name == "weights_on_chip_mib":
            moves = True
        said = dict(figures.provenance) | {name: (WEAKEST, "made up")}
        known = {"float32": replace(figures, provenance=said)}
        told = Fitted().estimate(replace(spec, kernels=known), Kernel((one,))).provenance
        if name in HARDLY[part]:
            assert told == "fitted; test-kin; fitted"
        else:
            assert (told == f"fitted; test-kin; {WEAKEST}") == moves, name
