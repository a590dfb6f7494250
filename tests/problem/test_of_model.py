"""A model's values, constants and prices as a problem has them, told again from the graph."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hetsim
from datasheets import all_by_datasheet
from hetsim.cost.calibration.calibrate import device_file
from hetsim.cost.calibration.fit import Fit, Overheads, prior
from hetsim.cost.calibration.measurements import RunSettings
from hetsim.cost.kernels.layouts import copies_of
from hetsim.errors import UnboundDimension, UsageError
from hetsim.graph.loading import model_of
from hetsim.hardware.kernel_figures import Correction
from hetsim.problem.of_model import constants_of, values_of
from hetsim.problem.parts import StorageWidth, StoredConstant, Value
from hetsim.problem.problem import Problem
from hetsim.problem.repriced import repriced
from onnx_builders import make_model, op, texts_model, value
from profile_builders import trt_profile, unit_model, written


def test_values_are_what_may_have_to_move() -> None:
    """Inputs that are read, and what nodes make that is read or given back; weights stay."""
    proto = make_model(
        [
            op("Add", "x w", "a"),
            op("Neg", "a", "b"),
            op("Mul", "a x", "c"),
            op("Split", "c", "d e", num_outputs=2),
        ],
        [value("x", (2, 3)), value("unread", (5,)), value("through", (7,))],
        [value("b", (2, 3)), value("a", (2, 3)), value("d", (1, 3)), value("through", (7,))],
        {"w": np.ones((2, 3), np.float32)},
    )
    graph = model_of(proto, canonical="none").graph
    at = {node.op_type: node.id for node in graph.nodes}
    assert set(values_of(graph)) == {
        Value("x", 24, -1, tuple(sorted(at[kind] for kind in ("Add", "Mul")))),
        Value("a", 24, at["Add"], tuple(sorted((at["Neg"], at["Mul"]))), is_output=True),
        Value("b", 24, at["Neg"], (), is_output=True),
        Value("c", 24, at["Mul"], (at["Split"],)),
        Value("d", 12, at["Split"], (), is_output=True),
    }
    assert constants_of(graph) == (StoredConstant("w", 24, (at["Add"],)),)


def test_a_weight_that_is_stored_as_integers_is_where_its_floats_are_read() -> None:
    """It moves nowhere: who reads it dequantized has the integers, and what they are scaled by."""
    stored = {
        "q": np.ones((4, 4), np.int8), "s": np.array(0.5, np.float32), "z": np.array(1, np.int8),
        "unread": np.ones(3, np.float32),
    }  # fmt: skip
    proto = make_model(
        [op("DequantizeLinear", "q s z", "w"), op("MatMul", "x w", "y"), op("MatMul", "y w", "v")],
        [value("x", (5, 4))], [value("v", None)], stored,
    )  # fmt: skip
    graph = model_of(proto, canonical="none").graph
    assert constants_of(graph) == (
        StoredConstant("q", 16, (0, 1, 2)),
        StoredConstant("s", 4, (0, 1, 2)),
        StoredConstant("z", 1, (0, 1, 2)),
    )
    moved = {v.name: v.nbytes for v in values_of(graph)}
    assert moved == {"x": 80, "w": 0, "y": 80, "v": 80}


def test_sizes_that_are_not_bound_are_an_error_or_what_the_caller_says() -> None:
    proto = make_model([op("Neg", "x", "y")], [value("x", ("n", 3))], [value("y", ("n", 3))])
    graph = model_of(proto, canonical="none").graph
    with pytest.raises(UnboundDimension):
        values_of(graph)
    assert [v.nbytes for v in values_of(graph, open_bytes=5)] == [5, 5]
    with pytest.raises(UnboundDimension, match="n"):
        Problem.of(model_of(proto, canonical="none"), hetsim.load_platform("laptop"))
    bound = model_of(proto, canonical="none", dims={"n": 2}).graph
    assert [v.nbytes for v in values_of(bound, open_bytes=5)] == [24, 24]


@cache
def problem_of(model: str, platform: str, cost: str) -> Problem:
    return Problem.of(hetsim.load_model(model), hetsim.load_platform(platform), cost=cost)


@pytest.mark.parametrize(
    ("model", "platform", "cost"),
    [
        ("zoo:squeezenet", "laptop", "fitted"),
        ("zoo:bert_small", "laptop", "fitted"),
        ("zoo:bert_small", "laptop", "roofline"),
    ],
)
def test_what_a_problem_says_is_what_its_model_and_its_platform_say(
    model: str, platform: str, cost: str
) -> None:
    problem = problem_of(model, platform, cost)
    assert problem.model is not None
    assert problem.platform is not None
    graph, specs = problem.model.graph, problem.platform.devices
    assert problem.name == f"{problem.model.name} on {problem.platform.name}"
    assert problem.devices == tuple(specs)
    assert problem.host is not None
    assert problem.devices[problem.host] == problem.platform.host
    assert problem.streams == tuple(spec.streams for spec in specs.values())
    assert (problem.idle_w, problem.busy_w) == (
        tuple(spec.idle_w for spec in specs.values()),
        tuple(spec.busy_w for spec in specs.values()),
    )
    assert problem.capacity_bytes == tuple(spec.memory_bytes for spec in specs.values())
    assert problem.held == ()
    assert problem.node_names == tuple(node.name for node in graph.nodes)
    assert problem.origins == tuple(node.origins for node in graph.nodes)
    assert problem.cost == cost
    assert not problem.pessimistic
    for p, spec in enumerate(specs.values()):
        lacking = np.flatnonzero(~np.isfinite(problem.seconds[:, p]))
        assert set(problem.refusals[p]) == set(lacking.tolist())
        if cost == "roofline":
            assert problem.dispatch_s[p] == spec.dispatch_s
    for kernel in problem.fused:
        # Joined, they take no longer than apart: what a runtime joins is never apart.
        apart = float(problem.seconds[list(kernel.nodes), kernel.device].sum())
        assert kernel.seconds <= apart * (1 + 1e-12)
    assert (problem.least_seconds <= problem.seconds).all()
    assert problem.least_s == {}
    assert (problem.unpriced, problem.unsized, problem.profiles) == ({}, {}, {})


def test_the_same_question_of_another_platform_keeps_what_was_asked(tmp_path: Path) -> None:
    model = model_of(unit_model(), name="unit")
    platform = hetsim.load_platform("laptop")
    profile = written(tmp_path, trt_profile({"conv1 + relu1": 0.5, "head": 0.25}))
    problem = Problem.of(
        model, platform, cost="roofline", contention="none", profiles={"gpu": profile},
        execute={"npu": "int8"}, pessimistic=True,
    )  # fmt: skip
    same = repriced(problem, platform)
    assert same.fingerprint == problem.fingerprint
    assert (same.cost, same.contention, same.pessimistic) == ("roofline", "none", True)
    assert (same.profiles, same.executed) == (problem.profiles, {"npu": "int8"})
    other = repriced(problem, hetsim.what_if(platform, without=["npu", "gpu"]))
    assert (other.executed, other.profiles) == ({}, {})
    assert other.devices == ("cpu",)
    asked = repriced(problem, platform, {"cpu": "int8"})
    assert asked.executed == {"npu": "int8", "cpu": "int8"}
    assert repriced(problem, platform, {"npu": "float16"}).executed == {"npu": "float16"}


def test_one_profile_is_of_all_devices_that_its_name_stands_for(tmp_path: Path) -> None:
    model = model_of(unit_model(), name="unit")
    profile = written(tmp_path, trt_profile({"conv1 + relu1": 0.5, "head": 0.25}))
    platform = hetsim.load_platform("gpu-server-8")
    several = [name for name in platform.devices if name.startswith("gpu.")]
    assert len(several) > 1
    problem = Problem.of(model, platform, profiles={"gpu": profile})
    assert list(problem.profiles) == several
    assert len({id(share.profile) for share in problem.profiles.values()}) == 1
    one = Problem.of(model, platform, profiles={several[1]: profile})
    assert list(one.profiles) == [several[1]]
    said = f"device '{several[1]}' has two profiles; leave one out"
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        Problem.of(model, platform, profiles={several[1]: profile, "gpu": profile})
    with pytest.raises(UsageError, match="'tpu' on gpu-server-8 to have a profile"):
        Problem.of(model, platform, profiles={"tpu": profile})


def test_what_is_supposed_of_a_device_cannot_have_been_measured(tmp_path: Path) -> None:
    model = model_of(unit_model(), name="unit")
    profile = written(tmp_path, trt_profile({"conv1 + relu1": 0.5, "head": 0.25}))
    platform = hetsim.what_if(hetsim.load_platform("laptop"), "npu.speed x2")
    said = r"what if 'npu\.speed x2': device 'npu' has a profile: its times are measured"
    with pytest.raises(UsageError, match=said):
        Problem.of(model, platform, profiles={"npu": profile})
    problem = Problem.of(model, platform, profiles={"gpu": profile})
    known = {one.name: one.status for one in problem.evidence}
    assert [name for name, status in known.items() if status == "what if"] == ["npu"]
    assert all(one.status != "what if" for one in problem.link_evidence)
    link = hetsim.what_if(hetsim.load_platform("laptop"), "link cpu-npu.bandwidth x2")
    links = {one.name: one.status for one in Problem.of(model, link).link_evidence}
    assert [name for name, status in links.items() if status == "what if"] == ["cpu-npu"]


def test_a_device_holds_its_own_types() -> None:
    assert StorageWidth() == StorageWidth(1, 1, 0)
    model = hetsim.load_model("zoo:squeezenet")
    problem = Problem.of(model, hetsim.load_platform("laptop"), execute={"npu": "int8"})
    npu = problem.device_index("npu")
    assert [how != StorageWidth() for how in problem.held] == [p == npu for p in range(3)]
    assert problem.platform is not None
    memory = [spec.memory_bytes for spec in problem.platform.devices.values()]
    assert problem.capacity_bytes is not None
    for p, nbytes in enumerate(memory):
        assert problem.capacity_bytes[p] == problem.room_bytes(p, nbytes)
        assert (problem.capacity_bytes[p] > nbytes) == (p == npu)
        assert problem.held_bytes(p, problem.capacity_bytes[p]) <= nbytes


def written_device(folder: Path, joins: dict[str, frozenset[str]], slow: float, block: int | None,
                   ) -> hetsim.Platform:  # fmt: skip
    """A processor with usual figures, but for its normalizations, by the name of the file."""
    factors = (Correction("normalization", slow, (), (), ()),)
    text = device_file(
        RunSettings("cpu", 1, "ONNX Runtime 0", {"processor": "a CPU"}, 0), "2026-01-01", 1,
        Fit(prior("cpu", 1)[0], Overheads(0.0, 0.0)), factors, joins, block, (),
    )  # fmt: skip
    (folder / f"cpu{block}.yaml").write_text(text, encoding="utf-8")
    return hetsim.load_platform(str(folder / f"cpu{block}.yaml"))


def test_a_node_takes_what_is_copied_for_it_as_well(tmp_path: Path) -> None:
    """Between orders of channels, where the device's figures say of such blocks."""
    model = hetsim.load_model("zoo:squeezenet")
    plain, blocked = (
        Problem.of(model, written_device(tmp_path, {}, 0.0, block)) for block in (None, 16)
    )
    more_s = (blocked.seconds - plain.seconds)[:, 0]
    copied = {copy.node for copy in copies_of(model.graph, 16)}
    assert copied
    assert set(np.flatnonzero(more_s).tolist()) == copied
    assert (more_s >= 0).all()
    assert blocked.least_s == plain.least_s == {}


def test_what_a_runtime_joins_although_that_takes_longer_is_as_long_apart(tmp_path: Path) -> None:
    """On a device whose normalization takes much longer where it is joined with a sum before it."""
    joins = {"normalization": frozenset({"Add/before"})}
    platform = written_device(tmp_path, joins, 4.0, None)
    model = hetsim.load_model("zoo:bert_small")
    problem = Problem.of(model, platform)
    joined = [kernel for kernel in problem.fused if len(kernel.nodes) > 1]
    apart_s = [float(problem.seconds[list(kernel.nodes), 0].sum()) for kernel in joined]
    assert [kernel.seconds for kernel in joined] == pytest.approx(apart_s, rel=1e-12)
    assert len(joined) >= 8
    # Not less at the least either, and not a bound below what it takes.
    assert problem.least_s == {}
    apart = [problem.group_seconds(0, [node]) for node in joined[0].nodes]
    assert sum(apart) - (len(apart) - 1) * problem.dispatch_s[0] == pytest.approx(
        problem.group_seconds(0, joined[0].nodes), rel=1e-12
    )


def test_a_node_is_priced_where_all_that_run_it_were_measured(tmp_path: Path) -> None:
    """What nobody knows the cost of is known where each device that runs it has a time of it."""
    model = model_of(texts_model(), name="texts")
    platform = hetsim.load_platform("laptop")
    plain = Problem.of(model, platform)
    (twice,) = plain.unpriced
    runs = [name for p, name in enumerate(plain.devices) if np.isfinite(plain.seconds[twice, p])]
    assert runs
    profile = written(tmp_path, trt_profile({"twice": 0.5}))
    assert Problem.of(model, platform, profiles=dict.fromkeys(runs, profile)).unpriced == {}
    other = written(tmp_path, trt_profile({plain.node_names[1 - twice]: 0.5}), "other.json")
    for name in runs:
        fewer = {**dict.fromkeys(runs, profile), name: other}
        assert Problem.of(model, platform, profiles=fewer).unpriced == plain.unpriced


def test_products_of_unknown_sizes_are_named_where_prices_count_on_sizes(tmp_path: Path) -> None:
    """On devices with figures of their kernels that run them, and of which no profile tells."""
    node = op("Einsum", "a b c", "y", "three", equation="ij,jk,kl->il")
    shapes = {"a": (2, 3), "b": (3, 4), "c": (4, 5)}
    proto = make_model(
        [op("Neg", "y", "z"), node][::-1],
        [value(name, shape) for name, shape in shapes.items()], [value("z", (2, 5))],
    )  # fmt: skip
    model = model_of(proto, canonical="none")
    platform = hetsim.load_platform("intel-core-ultra-155h-cpu")
    why = {0: "the sizes of its product are unknown"}
    assert Problem.of(model, platform).unsized == why
    assert Problem.of(model, platform, cost="roofline").unsized == {}
    profile = written(tmp_path, trt_profile({"three": 0.5}))
    (name,) = platform.devices
    assert Problem.of(model, platform, profiles={name: profile}).unsized == {}
    assert Problem.of(model, all_by_datasheet(platform)).unsized == {}
