"""Kernels in numbers, against the definitions of their ops and what nodes move."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetsim.cost.kernels.formula import FEATURES, FORMS, PRODUCTS, features
from hetsim.cost.kernels.fusion import Uses, joined_kernel
from hetsim.device.support.quantized import as_int8
from hetsim.graph.work import _FORMS, _RULES, graph_work, node_work
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.spec import OP_CLASSES
from kernel_graphs import graph_of

DEVICE = replace(load_platform("laptop").devices["npu"], execution_dtype={})
HALF = replace(DEVICE, execution_dtype={"float32": "float16"})


def row(graph, *members, device=DEVICE):
    works = graph_work(graph)
    kernel = joined_kernel(Uses.of(graph), members or range(len(works)))
    return dict(zip(FEATURES, features(kernel, device).tolist(), strict=True))


CONV = graph_of(
    [
        ("Conv", ["x", "w", "b"], ["y"], {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
        ("Sigmoid", ["y"], ["s"], {}),
        ("Mul", ["y", "s"], ["m"], {}),
        ("Add", ["m", "r"], ["z"], {}),
    ],
    {"x": (2, 8, 10, 10), "w": (16, 8, 3, 3), "b": (16,), "r": (2, 16, 5, 5)}
    | dict.fromkeys("ysmz", (2, 16, 5, 5)),
    constants=("w", "b"),
)


def test_a_fused_convolution_is_a_convolution_and_moves_what_leaves_it():
    found = row(CONV)
    out = 2 * 16 * 25
    assert found == {
        "form": FORMS.index("dense"),
        "flops": 2 * out * 72,
        "rows": 50, "columns": 16, "depth": 72, "groups": 1,
        "window_h": 3, "window_w": 3, "stride": 2, "dilation": 1,
        "read_bytes": 4 * (1600 + out),
        "write_bytes": 4 * out,
        "weight_bytes": 4 * (16 * 72 + 16),
        "exp_bytes": 4 * out,
        "largest_read_bytes": 4 * 1600,
        "steps": 1,
        "positions": 25,
    }  # fmt: skip


@pytest.mark.parametrize(("device", "share"), [(HALF, 0.5), (as_int8(DEVICE), 0.25)])
def test_bytes_are_those_of_the_type_that_the_device_holds(device, share):
    plain, held = row(CONV), row(CONV, device=device)
    for name in FEATURES:
        factor = share if name.endswith("_bytes") else 1
        assert held[name] == plain[name] * factor


def test_what_is_read_outside_leaves_the_kernel():
    graph = replace(CONV, outputs=("s", "z"))
    assert row(graph)["write_bytes"] == row(CONV)["write_bytes"] * 2
    # The gate alone reads what it is made of once.
    gate = row(CONV, 1, 2)
    assert (gate["read_bytes"], gate["write_bytes"]) == (3200, 3200)
    assert FORMS[int(gate["form"])] == "elementwise"


def test_what_is_no_elementwise_op_says_what_the_kernel_is():
    graph = graph_of(
        [("Transpose", ["x"], ["y"], {}), ("Gelu", ["y"], ["z"], {})],
        {"x": (4, 6), "y": (6, 4), "z": (6, 4)},
    )
    found = row(graph)
    assert FORMS[int(found["form"])] == "transpose"
    assert (found["flops"], found["exp_bytes"], found["largest_read_bytes"]) == (0, 96, 96)


def test_stored_integers_stay_as_they_are():
    graph = graph_of(
        [("Gather", ["table", "ids"], ["y"], {})],
        {"table": (100, 8), "ids": (3,), "y": (3, 8)},
        constants=("table", "ids"),
        dtypes={"ids": "int64"},
    )
    assert row(graph)["weight_bytes"] == 3 * 8 * 4 + 3 * 8
    assert row(graph, device=HALF)["weight_bytes"] == 3 * 8 * 2 + 3 * 8
    assert FORMS[int(row(graph)["form"])] == "gather"


def test_steps_of_a_recurrent_layer_are_launched_one_after_the_other():
    graph = graph_of(
        [("LSTM", ["x", "w", "r"], ["y"], {"hidden_size": 5})],
        {"x": (7, 2, 3), "w": (1, 20, 3), "r": (1, 20, 5), "y": (7, 1, 2, 5)},
        constants=("w", "r"),
    )
    found = row(graph)
    assert FORMS[int(found["form"])] == "recurrent"
    assert (found["rows"], found["columns"], found["depth"]) == (2, 20, 8)
    assert (found["steps"], found["flops"]) == (7, graph_work(graph)[0].flops)


def test_attention_is_queries_by_keys_and_scores_by_values():
    graph = graph_of(
        [("Attention", ["q", "k", "v"], ["y"], {})],
        {"q": (2, 3, 5, 8), "k": (2, 3, 7, 8), "v": (2, 3, 7, 4), "y": (2, 3, 5, 4)},
    )
    found = row(graph)
    assert FORMS[int(found["form"])] == "attention"
    assert [found[n] for n in ("rows", "columns", "depth", "groups")] == [5, 7, 12, 6]
    assert graph_work(graph)[0].product.macs == 6 * 5 * 7 * (8 + 4)


def test_every_op_and_class_has_a_form():
    assert set(PRODUCTS) <= set(FORMS)
    assert _FORMS.keys() == set(OP_CLASSES)
    assert set(_FORMS.values()) | {rule.form for rule in _RULES.values()} <= {"", *FORMS}


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "passing"),
    [
        ("Tanh", ["x"], {}, 6), ("Gelu", ["x"], {}, 6), ("Sqrt", ["x"], {}, 6),
        ("HardSwish", ["x"], {}, 0), ("Relu", ["x"], {}, 0), ("Pow", ["x", "e"], {}, 6),
        ("Pow", ["x", "two"], {}, 0), ("LRN", ["x"], {"size": 5}, 6),
    ],
)  # fmt: skip
def test_elements_that_pass_functions_like_exp(op, inputs, attributes, passing):
    shapes = {"x": (2, 3), "y": (2, 3), "e": (), "two": ()}
    graph = graph_of([(op, inputs, ["y"], attributes)], shapes, constants=("two",))
    graph = replace(graph, constant_numbers={"two": 2.0})
    assert node_work(graph, graph.nodes[0]).exp_elements == passing
