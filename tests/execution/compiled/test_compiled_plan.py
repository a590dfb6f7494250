"""Plans compiled to folders: what they compute, and what is refused."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import hetsim
from compiled_models import MODELS, inputs_of, mixed_model, weighted_model
from execution.conftest import by_hand
from hetsim.errors import ExecutionError, InvalidInput, OutOfRoom, UsageError
from hetsim.execution.compiled import run as read
from hetsim.execution.compiled.manifest import MANIFEST, WEIGHTS
from hetsim.execution.compiled.run import open_compiled, run_compiled
from hetsim.execution.compiled.write import compile_plan
from onnx_builders import assert_bitwise_equal, make_model, op, save, value
from platforms import CPU_AND_NPU
from sweeps import sweep

Planned = Callable[..., hetsim.Plan]


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    """A plan of a model that puts every other node on the other device."""

    def make(proto: onnx.ModelProto) -> hetsim.Plan:
        devices = ("cpu", "npu")
        groups = [(devices[node % 2], [node]) for node in range(len(proto.graph.node))]
        plan = by_hand(proto, groups, tmp_path, devices)
        platform = tmp_path / "pair.yaml"
        platform.write_text(CPU_AND_NPU)
        problem = replace(
            plan.problem,
            platform=hetsim.load_platform(platform),
            node_names=tuple(node.name for node in plan.problem.model.graph.nodes),
        )
        return replace(plan, problem=problem)

    return make


@pytest.fixture
def compiled(planned: Planned, tmp_path: Path) -> Path:
    """The folder of the weighted model."""
    folder = tmp_path / "compiled"
    compile_plan(planned(weighted_model()), folder)
    return folder


def rewritten(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the manifest, its digest taken anew."""
    file = folder / MANIFEST
    record = json.loads(file.read_text())
    del record["sha256"]
    change(record)
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    record["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    file.write_text(json.dumps(record, indent=1) + "\n")


@sweep("name", quick=["mixed"], full=MODELS)
def test_a_folder_computes_what_the_plan_does(name: str, planned: Planned, tmp_path: Path) -> None:
    plan = planned(MODELS[name]())
    folder = tmp_path / "compiled"
    manifest = compile_plan(plan, folder)
    shared = [] if manifest.weights is None else [WEIGHTS]
    assert bool(shared) == (name in ("weighted", "loop"))
    assert sorted(os.listdir(folder)) == sorted(
        [
            MANIFEST,
            "plan.json",
            *shared,
            *(f"g{i}_{g.device}.onnx" for i, g in enumerate(plan.groups)),
        ]
    )
    assert [entry.nbytes for entry in manifest.groups] == [
        (folder / entry.file).stat().st_size for entry in manifest.groups
    ]
    given = inputs_of(name)
    wanted = hetsim.run(plan, given, executor="threads")
    assert wanted.bitwise_equal
    done = run_compiled(open_compiled(folder), given, executor="threads")
    assert done.bitwise_equal
    assert done.not_compared is None
    assert_bitwise_equal(done.outputs, wanted.outputs)
    assert done.steps == wanted.steps


def test_weights_that_change_after_they_were_checked_change_nothing(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("HETSIM_CACHE_DIR", str(cache))
    given = inputs_of("weighted")
    opened = open_compiled(compiled)
    before = run_compiled(opened, given, executor="threads").outputs
    weights = compiled / "weights.bin"
    weights.write_bytes(bytes(weights.stat().st_size))
    assert_bitwise_equal(run_compiled(opened, given, executor="threads").outputs, before)
    with pytest.raises(InvalidInput, match="differs from the compiled file"):
        open_compiled(compiled)
    assert len(list((cache / "runs").iterdir())) == 1
    del opened
    gc.collect()
    assert list((cache / "runs").iterdir()) == []


def test_the_model_may_be_gone_and_then_nothing_is_compared(
    compiled: Path, planned: Planned, tmp_path: Path
) -> None:
    given = inputs_of("weighted")
    there = run_compiled(open_compiled(compiled), given, executor="threads")
    assert there.bitwise_equal
    shutil.move(compiled, tmp_path / "elsewhere")
    (tmp_path / "m.onnx").unlink()
    (tmp_path / "pair.yaml").unlink()
    opened = open_compiled(tmp_path / "elsewhere")
    gone = run_compiled(opened, given, executor="threads")
    assert_bitwise_equal(gone.outputs, there.outputs)
    assert gone.bitwise_equal is None
    assert "no such file" in str(gone.not_compared)
    save(mixed_model(), tmp_path)
    other = run_compiled(opened, given, executor="threads")
    assert other.bitwise_equal is None
    assert "changed since" in str(other.not_compared)
    silent = run_compiled(opened, given, executor="threads", verify=False)
    assert (silent.bitwise_equal, silent.not_compared) == (None, "not asked for")


def test_a_folder_can_compute_as_its_devices_do(planned: Planned, tmp_path: Path) -> None:
    plan = planned(weighted_model())
    platform = plan.problem.platform
    assert platform is not None
    halved = replace(platform.devices["npu"], execution_dtype={"float32": "float16"})
    devices = {**platform.devices, "npu": halved}
    problem = replace(plan.problem, platform=replace(platform, devices=devices))
    plan = replace(plan, problem=problem)
    given = inputs_of("weighted")
    wanted = hetsim.run(plan, given, executor="threads", precision="device")
    manifest = compile_plan(plan, tmp_path / "compiled", precision="device")
    assert {d.name: d.precision for d in manifest.devices} == {
        "cpu": "graph", "npu": "float32:float16",
    }  # fmt: skip
    done = run_compiled(open_compiled(tmp_path / "compiled"), given, executor="threads")
    assert_bitwise_equal(done.outputs, wanted.outputs)
    assert done.bitwise_equal
    exact = hetsim.run(plan, given, executor="threads")
    assert not np.array_equal(done.outputs["y"], exact.outputs["y"])


def test_a_folder_is_written_whole_or_not_at_all(
    planned: Planned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    plan = planned(weighted_model())
    target = tmp_path / "sub" / "compiled"
    with monkeypatch.context() as patch:
        patch.setattr(
            "hetsim.execution.compiled.write.describe",
            full,
        )
        with pytest.raises(OutOfRoom, match="the disk is full"):
            compile_plan(plan, target)
    assert list(target.parent.iterdir()) == []
    target.mkdir()
    compile_plan(plan, target)
    before = sorted(os.listdir(target))
    with pytest.raises(UsageError, match="not empty"):
        compile_plan(plan, target)
    assert sorted(os.listdir(target)) == before
    bare = replace(plan, problem=replace(plan.problem, model=None))
    with pytest.raises(UsageError, match="without a model"):
        compile_plan(bare, tmp_path / "other")


@sweep("first", quick=[0], full=range(12))
def test_one_flipped_byte_in_any_file_is_refused(compiled: Path, first: int) -> None:
    open_compiled(compiled)
    for file in sorted(compiled.iterdir()):
        content = file.read_bytes()
        step = max(1, len(content) // 60)
        for place in range(first * step, len(content), 12 * step):
            wrong = bytearray(content)
            wrong[place] ^= 1
            file.write_bytes(wrong)
            with pytest.raises(InvalidInput) as caught:
                open_compiled(compiled)
            assert caught.value.exit_code == 3
        file.write_bytes(content)
    open_compiled(compiled)


def test_links_and_what_is_no_file_are_refused(compiled: Path) -> None:
    for name in ("g1_npu.onnx", "plan.json", WEIGHTS, MANIFEST):
        outside = compiled.parent / f"moved {name}"
        shutil.move(compiled / name, outside)
        (compiled / name).symlink_to(outside)
        with pytest.raises(InvalidInput, match="it is a link"):
            open_compiled(compiled)
        (compiled / name).unlink()
        with pytest.raises(InvalidInput, match="No such file"):
            open_compiled(compiled)
        os.mkfifo(compiled / name)
        with pytest.raises(InvalidInput, match="not a regular file"):
            open_compiled(compiled)
        (compiled / name).unlink()
        (compiled / name).mkdir()
        with pytest.raises(InvalidInput):
            open_compiled(compiled)
        (compiled / name).rmdir()
        shutil.move(outside, compiled / name)
    open_compiled(compiled)


def group(place: int, **fields: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda record: record["groups"][place].update(fields)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda r: r.update(schema="hetsim-compiled/1"), "compiled/1'.* compile the plan again"),
        (lambda r: r.update(hetsim="0.0.1"), "compiled by hetsim '0.0.1', but this is '"),
        (lambda r: r.update(onnxruntime="1.0"), "compiled by onnxruntime '1.0', but this is '"),
        (lambda r: r.update(weights=None), r"g0_cpu\.onnx: .*weights\.bin.* is missing"),
        (lambda r: r["weights"].update(nbytes=64), "differs from the compiled file"),
        (lambda r: r["weights"].update(nbytes=10**6), "differs from the compiled file"),
        (lambda r: r["weights"].update(sha256="0" * 64), "differs from the compiled file"),
        (lambda r: r["weights"].update(file="g0_cpu.onnx"), "the same name"),
        (lambda r: r["weights"].update(file="../weights.bin"), "leaves the folder"),
        (lambda r: r.update(more=1), "more: Extra inputs"),
        (lambda r: r.update(groups={}), "groups"),
        (group(0, nbytes="1"), r"groups\.0\.nbytes"),
        (group(0, nbytes=1), "differs from the compiled file"),
        (group(0, nbytes=2**31), r"groups\.0\.nbytes"),
        (group(0, sha256="0" * 64), "differs from the compiled file"),
        (group(0, device="gpu"), "devices do not fit"),
        (group(1, file="g0_cpu.onnx"), "the same name"),
        (group(0, inputs=["nowhere"]), "before it is computed"),
        (group(1, outputs=["c"]), "computes a value twice"),
        (lambda r: r["groups"].reverse(), "before it is computed"),
        (lambda r: r["outputs"].append("nowhere"), "no subgraph computes output 'nowhere'"),
        (lambda r: r["devices"].pop(), "devices do not fit"),
        (lambda r: r["devices"][0].update(backend="theirs"), "the description of device"),
        (lambda r: r["inputs"][0].update(type="float16"), "differs from the file in the manifest"),
        (lambda r: r["inputs"][0].update(shape=[1]), "differs from the file in the manifest"),
        (lambda r: r["plan"].update(sha256="0" * 64), "differs from the compiled file"),
    ],
)  # fmt: skip
def test_a_manifest_that_says_what_is_not_so_is_refused(
    change: Callable[[dict[str, Any]], Any], told: str, compiled: Path
) -> None:
    rewritten(compiled, change)
    with pytest.raises(InvalidInput, match=told):
        run_compiled(open_compiled(compiled), executor="threads")


@sweep("external", quick=[True], full=[False, True])
def test_a_weight_that_subgraphs_share_is_stored_once(
    planned: Planned, tmp_path: Path, external: bool
) -> None:
    weight = np.random.default_rng(1).standard_normal((256, 256)).astype(np.float32) / 16
    values = ["x", "a", "b", "c", "d", "e", "y"]
    nodes = [op("MatMul", f"{one} w", other) for one, other in pairwise(values)]
    proto = make_model(
        [*nodes, op("Identity", "w", "w2")],
        [value("x", (2, 256))],
        [value("y", (2, 256)), value("w2", (256, 256)), value("w", (256, 256))],
        {"w": weight},
    )
    if external:
        onnx.external_data_helper.convert_model_to_external_data(proto, location="outside.bin")
        onnx.save_model(proto, tmp_path / "unused.onnx")
    plan = planned(proto)
    folder = tmp_path / "compiled"
    manifest = compile_plan(plan, folder)
    assert len(manifest.groups) == 7
    assert manifest.weights is not None
    assert manifest.weights.nbytes == weight.nbytes
    assert sum(file.stat().st_size for file in folder.iterdir()) < weight.nbytes + 2**16
    done = run_compiled(open_compiled(folder), executor="threads", seed=3)
    assert done.bitwise_equal is True
    wanted = hetsim.run(plan, seed=3, executor="threads")
    assert_bitwise_equal(done.outputs, wanted.outputs)
    np.testing.assert_array_equal(done.outputs["w2"], weight)
    np.testing.assert_array_equal(done.outputs["w"], weight)


def changed(folder: Path, change: Callable[[onnx.ModelProto], Any]) -> None:
    """Change a subgraph, its digest taken anew."""
    proto = onnx.ModelProto.FromString((folder / "g0_cpu.onnx").read_bytes())
    change(proto)
    data = proto.SerializeToString()
    (folder / "g0_cpu.onnx").write_bytes(data)
    rewritten(folder, group(0, nbytes=len(data), sha256=hashlib.sha256(data).hexdigest()))


def located(place: str, text: str) -> Callable[[onnx.ModelProto], Any]:
    """Point the first external weight elsewhere."""

    def change(proto: onnx.ModelProto) -> None:
        tensor = next(t for t in proto.graph.initializer if t.data_location == 1)
        next(entry for entry in tensor.external_data if entry.key == place).value = text

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (located("location", "/etc/passwd"), "is outside"),
        (located("location", "../weights.bin"), "is outside"),
        (located("location", "*/_ORT_MEM_ADDR_/*"), "address in memory"),
        (located("location", "nothing.bin"), "is missing"),
        (located("offset", "1048576"), "needs bytes"),
        (located("offset", "-64"), "at offset -64"),
        (located("length", "99999999999"), "99999999999 bytes"),
        (lambda p: p.graph.initializer[0].dims.append(-2), "negative size"),
        (lambda p: p.graph.ClearField("node"), "refuses"),
        (lambda p: p.graph.node.append(op("Spawn", "x", "z", domain="evil")), "refuses"),
        (lambda p: setattr(p.graph.output[0], "name", "other"), "the manifest"),
    ],
)
def test_a_subgraph_that_may_do_harm_is_refused_by_its_name(
    change: Callable[[onnx.ModelProto], Any], told: str, compiled: Path
) -> None:
    changed(compiled, change)
    with pytest.raises(InvalidInput, match=rf"g0_cpu\.onnx: .*{told}"):
        open_compiled(compiled)


def test_a_subgraph_that_ends_the_process_that_opens_it_is_refused(
    compiled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [sys.executable, "-c", "import os; os.abort()"]
    monkeypatch.setattr(read, "started", lambda *given, **how: subprocess.Popen(words, **how))
    with pytest.raises(InvalidInput, match=r"g0_cpu\.onnx: ONNX Runtime breaks when it opens it"):
        open_compiled(compiled)
    words[2] = "import time; time.sleep(60)"
    monkeypatch.setattr(read, "TIMEOUT_S", -4.0)
    with pytest.raises(InvalidInput, match="takes too long"):
        open_compiled(compiled)
    monkeypatch.undo()
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(ExecutionError, match="cannot start a process"):
        open_compiled(compiled)
