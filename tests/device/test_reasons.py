"""Every text by which a rule refuses is known for the kind of reason that it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import get_args

import pytest

import hetsim
from hetsim.device.support.rules import Kind, SupportRule, cause_of, refusal
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.hardware.catalog import load_device

SHAPE = (1, 4, 4, 4)


def graph(op: str = "Conv", *, dtype: str = "float32", shape: tuple[object, ...] = SHAPE) -> Graph:
    kind = Tensor("it's; a 'name'", dtype, shape)  # type: ignore[arg-type]
    node = Node(0, "n", op, "", (kind.name,), ("y",), attributes={"group": 3}, origins=("n",))
    tensors = {kind.name: kind, "y": Tensor("y", "float32", SHAPE)}
    return Graph("g", (node,), tensors, (kind.name,), ("y",), frozenset(), {"": 18})


@pytest.mark.parametrize(
    ("kind", "rule", "asked"),
    [
        ("op", SupportRule(ops=frozenset({"Relu"})), graph()),
        ("op", SupportRule(except_ops=frozenset({"Conv"})), graph()),
        ("attribute", SupportRule(attributes={"Conv": {"group": (1,)}}), graph()),
        ("opset", SupportRule(opset=(7, 11)), graph()),
        ("type", SupportRule(dtypes=frozenset({"float16"})), graph()),
        ("shape", SupportRule(static_shapes_only=True), graph(shape=(1, "n"))),
        ("rank", SupportRule(max_rank=3), graph()),
        ("size", SupportRule(max_tensor_bytes=8), graph()),
    ],
)
def test_what_a_rule_says(kind: Kind, rule: SupportRule, asked: Graph) -> None:
    spec = replace(load_device("nvidia-l4"), support=rule)
    reason = refusal(spec, asked, 0)
    assert reason is not None
    assert cause_of(reason) == (kind, reason)


@pytest.mark.parametrize(
    ("reason", "kind", "text"),
    [
        ("no node that computes is joined to it there", "lone", None),
        ("op Conv has no integer kernel, and it computes no floats", "type", None),
        ("op my:Thing of a custom-op library (it takes none)", "op", None),
        ("op my:Twice, a function (it takes none)", "op", None),
        ("op LRN in then_branch of If", "op", None),
        ("float64 tensor 'x' in the body of my:Twice", "type", None),
        ("not on Sundays", "other", None),
        ("", "other", None),
        ("op Erf; taken only as a part of pattern 'gelu'", "op", "op Erf"),
        ("op Erf; no match of 'gelu': rank 5 of tensor 'x' (it takes 4)", "rank",
         "pattern 'gelu': rank 5 of tensor 'x' (it takes 4)"),
        ("op Erf; no match of 'gelu': used by 'n3'", "other", "pattern 'gelu': used by 'n3'"),
    ],
)  # fmt: skip
def test_what_else_is_said(reason: str, kind: Kind, text: str | None) -> None:
    assert kind in get_args(Kind)
    assert cause_of(reason) == (kind, reason if text is None else text)


def test_the_catalog_refuses_for_known_reasons_alone() -> None:
    found: Counter[str] = Counter()
    model = hetsim.load_model("zoo:bert_small")
    for name in ("google-edge-tpu", "rockchip-rk3588-npu", "hailo-8l"):
        problem = hetsim.Problem.of(model, hetsim.load_platform(name))
        found.update(cause_of(reason)[0] for reason in problem.refusals[0].values())
    assert found
    assert "other" not in found
