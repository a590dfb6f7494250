"""The journal of a calibration, and the networks of its design."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from hetsim.cost.calibration.builder import KINDS, single
from hetsim.cost.calibration.measurements import (
    BLOCK,
    Journal,
    NetworkRun,
    RunKernel,
    RunSettings,
    generated,
    judged,
    merged,
    network_run,
    part_of,
    rounds,
)
from hetsim.cost.calibration.networks import networks
from hetsim.device.kernels.timing import TimedKernelRuns, TimedNetwork, time_network
from hetsim.errors import InvalidInput
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.loading import load_model, model_of

SETTING = RunSettings("cpu", 1, "ONNX Runtime 1", {"processor": "P"}, 1)
ONE = NetworkRun(
    "a", 0, 0.5, 0.1, 0.0, (RunKernel("k", "Conv", 8, 0.25), RunKernel("l", "Relu", None, 0.1))
)


def test_what_was_added_is_there_again(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = Journal(path, SETTING)
    journal.add(ONE)
    journal.add(replace(ONE, round=1))
    again = Journal(path, SETTING)
    assert list(again) == list(journal) == [ONE, replace(ONE, round=1)]
    assert ("a", 1) in again
    assert ("a", 2) not in again
    assert again.by_network() == {"a": [ONE, replace(ONE, round=1)]}


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    Journal(path, SETTING).add(ONE)
    whole = path.read_bytes()
    path.write_bytes(whole + b'["b", 0, 0.')
    again = Journal(path, SETTING)
    assert list(again) == [ONE]
    again.add(replace(ONE, network="b"))
    assert [one.network for one in Journal(path, SETTING)] == ["a", "b"]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (replace(SETTING, threads=2), "started with threads 1, but this run has 2"),
        (replace(SETTING, runtime="ONNX Runtime 2"), "started with runtime 'ONNX Runtime 1'"),
        (replace(SETTING, machine={"processor": "Q"}), "started with machine {'processor': 'P'}"),
        (replace(SETTING, provider="cuda"), "started with provider 'cpu'"),
        (replace(SETTING, design=2), "started with design 1"),
    ],
)
def test_another_setting_is_refused(tmp_path: Path, other: RunSettings, message: str) -> None:
    path = tmp_path / "j.jsonl"
    Journal(path, SETTING)
    with pytest.raises(InvalidInput) as caught:
        Journal(path, other)
    assert message in str(caught.value)
    assert "delete it to start again" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "x\n", "{}\n", '{"schema": "other", "setting": {}}\n', "[]\n"]
)
def test_what_is_no_journal_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "j.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match="not a journal of a calibration"):
        Journal(path, SETTING)


@pytest.mark.parametrize(
    "line", ["x", "[]", '["a", 0, -1, 0, 0, []]', '["a", 0, 1, 0, 0, [["k"]]]']
)
def test_a_line_that_is_no_measurement_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "j.jsonl"
    Journal(path, SETTING).add(ONE)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(line + "\n")
    with pytest.raises(InvalidInput, match=r"j.jsonl:3: not a measurement"):
        Journal(path, SETTING)


def test_repeats_become_one_figure_with_their_spread() -> None:
    runs = TimedNetwork(
        cpu_s=(1.0, 1.2, 1.1, 5.0), wall_s=(2.0, 2.4, 2.2, 10.0),
        kernels=(TimedKernelRuns("k", "Conv", "CPU", 4, (0.3, 0.2, 0.9)),),
    )  # fmt: skip
    found = network_run("n", 0, runs, SETTING)
    assert (found.seconds, found.waited) == (1.0, 0.5)
    assert found.spread == (5.0 - 1.0) / 2
    assert found.kernels == (RunKernel("k", "Conv", 4, 0.2),)
    by_wall = network_run("n", 0, runs, replace(SETTING, threads=2))
    assert (by_wall.seconds, by_wall.waited) == (2.0, 0.0)


def test_several_times_become_one() -> None:
    later = replace(ONE, round=1, seconds=0.6, kernels=(RunKernel("k", "Conv", 8, 0.2),))
    found = merged([ONE, later])
    assert found.seconds == 0.5
    assert found.spread == pytest.approx(0.1)
    assert found.kernels == (RunKernel("k", "Conv", 8, 0.2),)
    assert merged([ONE]) == ONE


KNOWN = tuple(sorted({one.kind for one in networks(12)}))


def first_of(kind: str) -> onnx.ModelProto:
    return next(one for one in networks(12) if one.kind == kind).build()


@pytest.mark.parametrize("kind", KNOWN)
def test_a_network_is_the_same_every_time_and_valid(kind: str) -> None:
    made = first_of(kind)
    onnx.checker.check_model(made, full_check=True)
    assert made.SerializeToString() == first_of(kind).SerializeToString()


@pytest.mark.parametrize("index", range(len(KINDS)))
def test_single_layers_of_every_kind_run(index: int) -> None:
    made = single("s", np.random.default_rng([1, index]), (index,), 3)
    onnx.checker.check_model(made, full_check=True)
    model = model_of(made)
    timed = time_network(
        model.proto.SerializeToString(), random_inputs(model), "CPUExecutionProvider", 1,
        runs=1, most_s=1.0,
    )  # fmt: skip
    assert timed.kernels


@pytest.mark.sweep
def test_values_neither_grow_nor_fade() -> None:
    import onnxruntime

    for index in (0, 2, 6):
        made = networks(index + 1)[index].build()
        session = onnxruntime.InferenceSession(
            made.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        model = model_of(made)
        for array in session.run(None, random_inputs(model)):
            size = np.abs(array).mean()
            assert 1e-6 < size < 1e6


def test_what_is_measured_comes_in_blocks_each_two_times() -> None:
    order = [(round_, task.name) for round_, task in rounds(2 * BLOCK, ["squeezenet"])]
    assert len(order) == len(set(order)) == 2 * (2 * BLOCK + 3)
    half = [task for round_, task in order if round_ == 0]
    assert half[:BLOCK] == [task.name for task in generated(0, BLOCK)]
    assert half[BLOCK : BLOCK + 3] == ["zoo:squeezenet", "zoo:squeezenet 1/2", "zoo:squeezenet 2/2"]
    few = [(round_, task.name) for round_, task in rounds(3, [])]
    assert few == [(round_, task.name) for round_ in (0, 1) for task in generated(0, 3)]


def test_parts_of_a_network_are_all_of_it() -> None:
    whole = load_model("zoo:squeezenet")
    parts = [part_of("zoo:squeezenet", part, 4, 0) for part in range(4)]
    assert all(len(part.graph.nodes) >= 3 for part in parts)
    names = [node.name for part in parts for node in part.graph.nodes]
    assert names == [node.name for node in whole.graph.nodes]
    assert [task.name for task in judged(["resnet18"])] == [
        "zoo:resnet18", "zoo:resnet18 1/2", "zoo:resnet18 2/2",
    ]  # fmt: skip
