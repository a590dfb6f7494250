"""Faults planted at random places are all found, each as what it is, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

import hetsim
from builders import BOX
from hetsim.analysis.lint.lint import Lint, lint
from hetsim.graph.model import Model
from hetsim.hardware.spec import DeviceSpec, Platform, SupportRule
from hetsim.problem.problem import Problem
from onnx_builders import load, make_model, op, value
from proving import check_proved
from sweeps import sweep


def chain(seed: int, *, refused: int, tiny: int) -> tuple[Problem, set[int], set[int]]:
    """A chain that the npu does ten times as fast as the host, but for nodes that it refuses; a
    dsp takes a few small ones, and takes longer to start than to run them."""
    rng = random.Random(seed)
    count = rng.randint(8, 16)
    places = rng.sample(range(0, count, 2), refused + tiny)
    odd, small = set(places[:refused]), set(places[refused:])
    seconds = np.array([[10.0, 1.0, np.inf]] * count)
    for v in odd:
        seconds[v, 1] = np.inf
    for v in small:
        seconds[v] = (1.0, 0.1, 0.1)
    problem = Problem.from_arrays(
        seconds, edges=[(v, v + 1, rng.randint(1, 4)) for v in range(count - 1)],
        devices=("cpu", "npu", "dsp"), bytes_per_s=100.0, host=0, dispatch_s=[0.0, 0.0, 1.0],
    )  # fmt: skip
    ops = tuple(f"Odd{v}" if v in odd else "Task" for v in range(count))
    return replace(problem, op_types=ops), odd, small


@sweep("seed", quick=range(4), full=range(200))
def test_planted_in_chains(seed: int) -> None:
    rng = random.Random(-seed)
    refused, tiny = rng.randint(0, 2), rng.randint(0, 2)
    problem, odd, small = chain(seed, refused=refused, tiny=tiny)
    found = lint(problem, "hetero:dsp,npu,cpu", device="npu")
    check_proved(found)
    name = problem.node_names
    for v in odd:
        (one,) = [f for f in found.findings if f.kind == "refused-other" and f.nodes == (name[v],)]
        assert one.what == f"npu cannot run Odd{v}: inf in seconds"
    for v in small:
        (one,) = [f for f in found.findings if f.nodes == (name[v],)]
        assert one.kind in ("tiny", "to-and-fro")
        assert dict(one.change.pins).keys() == {name[v]}
    planted = {name[v] for v in odd | small}
    splits = [one for one in found.findings if one.kind == "split"]
    assert all(planted.issuperset(one.nodes) for one in found.findings if one not in splits)
    # Without the dsp the npu does all of it, unless it refuses some.
    assert len(splits) == (not odd and bool(small))
    if not planted:
        assert found.findings == ()


RULE = SupportRule(
    ops=None, except_ops=frozenset({"LRN"}), dtypes=frozenset({"float32", "int64", "bool"}),
    static_shapes_only=True, max_rank=4, max_tensor_bytes=10 << 20, opset=(13, 20),
    attributes={"Conv": {"dilations": ((1, 1),)}},
)  # fmt: skip


def platform(**changes: Any) -> Platform:
    """The box, whose npu takes all but what `RULE` says, in one precision, on a quick link."""
    read = hetsim.load_platform(str(BOX))
    npu = replace(
        read.devices["npu"], support=replace(RULE, **changes), flops_per_s={"float16": 3e12},
        quantized=frozenset(), dispatch_s=20e-6,
    )  # fmt: skip
    links = tuple(
        replace(link, bytes_per_s=1e11, latency_s=1e-6)
        for link in read.links
        if {link.a, link.b} == {"cpu", "npu"}
    )
    devices: dict[str, DeviceSpec] = {"cpu": read.devices["cpu"], "npu": npu}
    return replace(read, devices=devices, links=links)


def model(folder: Path, faults: dict[int, str], blocks: int = 7, opset: int = 18) -> Model:
    """Convolutions one after another, with a fault after some; planted nodes begin with ``odd``."""
    rng = np.random.default_rng(0)
    weight = (rng.standard_normal((32, 32, 3, 3)) / 17).astype(np.float32)
    nodes: list[onnx.NodeProto] = []
    x = "x"
    for at in range(blocks):
        kind = faults.get(at)
        wide = {"dilations": [2, 2], "pads": [2] * 4} if kind == "attribute" else {"pads": [1] * 4}
        odd = "odd" if kind == "attribute" else "conv"
        nodes.append(op("Conv", f"{x} w", f"c{at}", f"{odd}{at}", **wide))
        x = f"c{at}"
        if kind in PLANTED:
            nodes += PLANTED[kind](x, f"p{at}", f"odd{at}")
            x = f"p{at}"
    nodes.append(op("Identity", x, "y", "end"))
    return load(
        make_model(
            nodes, [value("x", (1, 32, 112, 112))], [value("y", (1, 32, 112, 112))],
            {
                "w": weight, "five": np.array([1, 32, 112, 56, 2]), "one": np.array([-1]),
                "four": np.array([1, 32, 112, 112]), "zero": np.float32(0),
            },
            opset=opset,
        ),
        folder, canonical="none",
    )  # fmt: skip


def _double(x: str, y: str, name: str) -> list[onnx.NodeProto]:
    return [
        op("Cast", x, f"{y}_a", f"{name}_in", to=TensorProto.DOUBLE),
        op("Relu", f"{y}_a", f"{y}_b", f"{name}_relu"),
        op("Cast", f"{y}_b", y, f"{name}_out", to=TensorProto.FLOAT),
    ]


def _five(x: str, y: str, name: str) -> list[onnx.NodeProto]:
    return [
        op("Reshape", f"{x} five", f"{y}_a", f"{name}_in"),
        op("Relu", f"{y}_a", f"{y}_b", f"{name}_relu"),
        op("Reshape", f"{y}_b four", y, f"{name}_out"),
    ]


def _large(x: str, y: str, name: str) -> list[onnx.NodeProto]:
    many = " ".join([x] * 8)
    return [
        op("Concat", many, f"{y}_a", f"{name}_in", axis=1),
        op("ReduceMax", f"{y}_a", f"{y}_b", f"{name}_max", keepdims=1),
        op("Add", f"{x} {y}_b", y, f"plain_{name}"),
    ]


def _by_data(x: str, y: str, name: str) -> list[onnx.NodeProto]:
    return [
        op("Reshape", f"{x} one", f"{y}_a", f"plain_{name}_flat"),
        op("Greater", f"{y}_a zero", f"{y}_b", f"plain_{name}_which"),
        op("Compress", f"{y}_a {y}_b", f"{y}_c", f"{name}_some"),
        op("ReduceSum", f"{y}_c", f"{y}_d", f"{name}_sum", keepdims=0),
        op("Add", f"{x} {y}_d", y, f"plain_{name}"),
    ]


def _lrn(x: str, y: str, name: str) -> list[onnx.NodeProto]:
    return [op("LRN", x, y, name, size=5)]


PLANTED: dict[str | None, Callable[[str, str, str], list[onnx.NodeProto]]] = {
    "op": _lrn, "type": _double, "rank": _five, "size": _large, "shape": _by_data,
}  # fmt: skip
KINDS = ("op", "attribute", "type", "rank", "size", "shape")


def checked(read: Model, on: Platform) -> Lint:
    found = lint(Problem.of(read, on), device="npu")
    check_proved(found)
    return found


@sweep(
    "kind, seed",
    quick=[(kind, 0) for kind in KINDS],
    full=[(kind, seed) for kind in KINDS for seed in range(4)],
)
def test_one_kind_planted_at_random_places(kind: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(f"{kind}{seed}")
    places = rng.sample(range(6), rng.randint(1, 2))
    read = model(tmp_path, dict.fromkeys(places, kind))
    found = checked(read, platform())
    planted = {node.name for node in read.graph.nodes if node.name.startswith("odd")}
    (one,) = [f for f in found.findings if f.kind == f"refused-{kind}"]
    assert set(one.nodes) == planted
    assert one.gain >= 0.01
    near = {node.name for node in read.graph.nodes if not node.name.startswith("conv")}
    others = [f for f in found.findings if f is not one and f.kind != "link"]
    # What else there is, is about what they cause: subgraphs around them.
    assert all(f.kind in ("tiny", "to-and-fro") and near & set(f.nodes) for f in others)


@sweep("seed", quick=range(1), full=range(8))
def test_several_kinds_at_once(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    kinds = rng.sample(KINDS, 3)
    faults = dict(zip(rng.sample(range(6), 3), kinds, strict=True))
    found = checked(model(tmp_path, faults), platform())
    kept = {f.kind: f for f in (*found.findings, *found.others)}
    for at, kind in faults.items():
        one = kept[f"refused-{kind}"]
        assert all(name.startswith(f"odd{at}") for name in one.nodes)
    assert {kind for kind in kept if kind.startswith("refused-")} == {
        "refused-all", *(f"refused-{kind}" for kind in kinds)
    }  # fmt: skip
    # Together they gain what none of them does alone.
    assert found.findings[0].kind == "refused-all"


def test_a_clean_model_has_no_findings(tmp_path: Path) -> None:
    assert checked(model(tmp_path, {}), platform()).findings == ()


def test_an_operator_set_out_of_range_keeps_all_of_it_off(tmp_path: Path) -> None:
    found = checked(model(tmp_path, {}, blocks=2), platform(opset=(7, 11)))
    first = found.findings[0]
    assert (first.kind, first.device) == ("refused-opset", "npu")
    assert first.what == "npu cannot run operator set 18 (it takes 7 to 11): Conv, Identity"
    assert first.change.say == "support it on npu, or convert the model's operator set"


def test_a_precision_that_is_faster_is_found(tmp_path: Path) -> None:
    on = platform()
    quick = replace(
        on.devices["npu"], flops_per_s={"float16": 3e12, "int8": 6e12},
        quantized=frozenset({"Conv"}),
        support=replace(RULE, dtypes=frozenset({"float32", "float16", "int8"})),
    )  # fmt: skip
    found = checked(model(tmp_path, {}), replace(on, devices={**on.devices, "npu": quick}))
    (one,) = found.findings
    assert (one.kind, one.what) == ("precision", "npu computes in float16")
    assert one.change.execute == (("npu", "int8"),)


def test_a_slow_link_is_found(tmp_path: Path) -> None:
    on = platform()
    slow = tuple(replace(link, bytes_per_s=5e8) for link in on.links)
    found = checked(model(tmp_path, {}, blocks=3), replace(on, links=slow))
    assert [one.kind for one in found.findings] == ["link"]
    assert found.findings[0].change.what_if == ("link cpu-npu.bandwidth x2",)


def test_a_reason_of_the_device_s_own_words_is_told_as_such() -> None:
    problem = Problem.from_arrays(
        [[9.0, 1.0], [9.0, np.inf]], edges=[(0, 1, 8)], devices=("cpu", "npu"), host=0
    )
    told = replace(problem, refusals=({}, {1: "not on Sundays"}), op_types=("Conv", "Gelu"))
    kinds = {one.kind: one.what for one in lint(told).findings}
    assert kinds["refused-other"] == "npu cannot run Gelu: not on Sundays"
