"""Each format is told by its content, and a file that is none of them, or hostile, is refused."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetsim.cost.profiles import formats
from hetsim.cost.profiles.formats import load_profile
from hetsim.errors import InvalidInput
from profile_builders import (
    ai_hub_profile,
    openvino_table,
    ort_event,
    ort_profile,
    ort_run,
    trt_profile,
    written,
)
from sweeps import examples


def times(profile: Any) -> dict[str, float]:
    return {kernel.name: pytest.approx(kernel.seconds) for kernel in profile.kernels}


def test_onnx_runtime_takes_the_median_of_the_runs_but_the_first(tmp_path: Path) -> None:
    rows = []
    for at, took in ((0, 900.0), (10_000, 30.0), (20_000, 10.0), (30_000, 20.0)):
        rows += [ort_event("a", took, at + 5, "Conv"), ort_run(at, took + 15)]
    profile = load_profile(written(tmp_path, rows))
    assert profile.format == "ONNX Runtime profile"
    (kernel,) = profile.kernels
    assert (kernel.name, kernel.op, kernel.unit) == ("a", "Conv", "CPUExecutionProvider")
    assert (kernel.low_s, kernel.seconds, kernel.high_s) == pytest.approx((10e-6, 20e-6, 30e-6))
    assert profile.runs == 3
    assert "first run" in profile.rule
    assert profile.totals_s == pytest.approx((30e-6, 10e-6, 20e-6))
    assert profile.between_s == pytest.approx(15e-6)


def test_onnx_runtime_without_runs_counts_how_often_a_kernel_ran(tmp_path: Path) -> None:
    rows = [ort_event("a", us, at) for at, us in ((0, 99.0), (200, 3.0), (400, 5.0))]
    profile = load_profile(written(tmp_path, rows))
    assert times(profile) == {"a": 4e-6}
    assert profile.runs == 2
    assert profile.between_s is None
    one = load_profile(written(tmp_path, rows[:1]))
    assert times(one) == {"a": 99e-6}
    assert "one run" in one.rule


def test_what_a_loop_runs_inside_it_is_part_of_its_time(tmp_path: Path) -> None:
    rows = [
        ort_event("loop", 100, 10, "Loop"),
        *(ort_event("body", 20, at, "Add") for at in (15, 40, 70)),
        ort_event("after", 5, 110, "Relu"),
        ort_run(0, 120),
    ]
    assert times(load_profile(written(tmp_path, rows))) == {"loop": 100e-6, "after": 5e-6}


def test_tensorrt_takes_medians_then_means(tmp_path: Path) -> None:
    rows = trt_profile({"conv1 + relu1": 0.5, "conv1": 0.25}, count=40)
    profile = load_profile(written(tmp_path, rows))
    assert profile.format == "TensorRT profile"
    assert profile.runs == 40
    assert times(profile) == {"conv1 + relu1": 0.5e-3, "conv1": 0.25e-3}
    for row in rows[1:]:
        row.update(medianMs=0.1)
    assert times(load_profile(written(tmp_path, rows))) == dict.fromkeys(
        ("conv1 + relu1", "conv1"), 0.1e-3
    )
    for row in rows[1:]:
        del row["medianMs"]
    assert "means" in load_profile(written(tmp_path, rows)).rule
    for row in rows[1:]:
        del row["averageMs"]
    assert times(load_profile(written(tmp_path, rows)))["conv1"] == 0.25e-3


def test_openvino_as_table_and_as_json_say_the_same(tmp_path: Path) -> None:
    requests = [
        [("conv1", "EXECUTED", "Convolution", 1.0), ("relu1", "NOT_RUN", "Relu", 0.0)],
        [("conv1", "EXECUTED", "Convolution", 3.0), ("relu1", "NOT_RUN", "Relu", 0.0)],
    ]
    table = load_profile(written(tmp_path, openvino_table(requests), "report.csv"))
    nodes = [
        {"nodes": [
            {"name": n, "status": s, "node_type": t, "real_time": ms} for n, s, t, ms in layers
        ]}
        for layers in requests
    ]  # fmt: skip
    record = {"report_type": "detailed", "detailed_performance": nodes}
    told = load_profile(written(tmp_path, record))
    for profile in (table, told):
        assert profile.format == "OpenVINO counters"
        assert profile.ordered
        assert profile.runs == 2
        assert times(profile) == {"conv1": 2e-3}
        assert profile.kernels[0].op == "Convolution"
    old = openvino_table(requests).replace("(ms)", "(uS)")
    assert times(load_profile(written(tmp_path, old))) == {"conv1": 2e-6}
    mean = {"report_type": "average", "avg_performance": nodes[0]}
    assert times(load_profile(written(tmp_path, mean))) == {"conv1": 1e-3}
    by_time = {"report_type": "sort_detailed", "detailed_performance": nodes}
    assert not load_profile(written(tmp_path, by_time)).ordered


def test_a_name_may_hold_what_separates_columns(tmp_path: Path) -> None:
    layers = [[("a;b", "EXECUTED", "Add", 1.0), ("c", "EXECUTED", "Add", 2.0)]]
    for text in (openvino_table(layers), openvino_table(layers).replace("\n", ";\n")):
        assert times(load_profile(written(tmp_path, text))) == {"a;b": 1e-3, "c": 2e-3}
    open_end = openvino_table(layers).replace(";2.000;2.000", ";2.000;")
    assert times(load_profile(written(tmp_path, open_end))) == {"a;b": 1e-3, "c": 2e-3}
    with pytest.raises(InvalidInput, match="a row of its table has 2 columns, its head 6"):
        load_profile(written(tmp_path, openvino_table(layers) + "conv1;EXECUTED\n"))


def test_ai_hub_has_times_or_cycles(tmp_path: Path) -> None:
    layers: list[dict[str, Any]] = [
        {"name": "conv1", "type": "Conv2d", "compute_unit": "NPU", "execution_time": 30},
        {"name": "head", "type": "FullyConnected", "compute_unit": "CPU", "execution_time": 10},
    ]
    profile = load_profile(written(tmp_path, ai_hub_profile(layers, 60)))
    assert profile.format == "AI Hub profile"
    assert profile.runs == 3
    assert times(profile) == {"conv1": 30e-6, "head": 10e-6}
    assert profile.between_s == pytest.approx(20e-6)
    for layer, cycles in zip(layers, (300, 100), strict=True):
        layer.update(execution_time=None, execution_cycles=cycles)
    assert times(load_profile(written(tmp_path, ai_hub_profile(layers, 60)))) == {
        "conv1": 45e-6,
        "head": 15e-6,
    }
    for layer in layers:
        del layer["execution_cycles"]
    with pytest.raises(InvalidInput, match="no times"):
        load_profile(written(tmp_path, ai_hub_profile(layers, 60)))


@pytest.mark.parametrize(
    "text",
    ["", "hello", "{}", "[]", "[1]", '{"a": [1]}', "a;b;c\n1;2;3", '[{"name": "a"}]', "null"],
)
def test_what_is_no_profile_is_told_what_is_read(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_profile(written(tmp_path, text))
    said = str(caught.value)
    for name in ("ONNX Runtime", "trtexec", "OpenVINO", "AI Hub"):
        assert name in said
    assert "profile.json" in said


NUMBERS = ["NaN", "Infinity", "-1", "1e400", "9" * 5000, '"x"', "null", "true", "[]", "1e30"]
TEXTS = [
    '[{"cat": "Node", "ph": "X", "ts": 0, "name": "a_kernel_time", "dur": $}]',
    '[{"cat": "Node", "ph": "X", "dur": 1, "name": "a_kernel_time", "ts": $}]',
    '[{"count": 3}, {"name": "a", "averageMs": $}]',
    '[{"count": $}, {"name": "a", "timeMs": 1e-9}]',
    '{"execution_detail": [{"name": "a", "execution_time": $}]}',
    '{"execution_detail": [{"name": "a", "execution_time": 1}],'
    ' "execution_summary": {"estimated_inference_time": $}}',
    '{"detailed_performance": [{"nodes": [{"name": "a", "status": "EXECUTED", "real_time": $}]}]}',
]
MAY_BE_ABSENT = "estimated_inference_time"


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("text", TEXTS)
def test_figures_that_no_profile_has_are_refused(tmp_path: Path, text: str, number: str) -> None:
    path = written(tmp_path, text.replace("$", number))
    if number == "null" and MAY_BE_ABSENT in text:
        assert load_profile(path).between_s is None
        return
    if number == "1e30" and "count" in text and "averageMs" not in text:
        assert load_profile(path).total_s < 1e-30
        return
    with pytest.raises(InvalidInput):
        load_profile(path)


def test_hostile_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = '[{"name": "a", "timeMs": 1, "timeMs": 2}]'
    with pytest.raises(InvalidInput, match="'timeMs' twice"):
        load_profile(written(tmp_path, twice))
    with pytest.raises(InvalidInput, match="too deeply"):
        load_profile(written(tmp_path, "[" * 100_000))
    with pytest.raises(InvalidInput, match="too long"):
        load_profile(written(tmp_path, trt_profile({"a" * 100_000: 1.0})))
    with pytest.raises(InvalidInput, match="no time"):
        load_profile(written(tmp_path, trt_profile({"a": 0.0})))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="not a text file"):
        load_profile(tmp_path / "binary")
    with pytest.raises(InvalidInput, match="cannot read"):
        load_profile(tmp_path)
    with pytest.raises(InvalidInput, match="cannot read"):
        load_profile(tmp_path / "none.json")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match="no regular file"):
        load_profile(tmp_path / "pipe")
    monkeypatch.setattr(formats, "LIMIT_BYTES", 100)
    with pytest.raises(InvalidInput, match="larger than 100 bytes"):
        load_profile(written(tmp_path, ort_profile([("a", 1.0, "Conv")])))
    monkeypatch.undo()
    monkeypatch.setattr(formats, "MOST_KERNELS", 2)
    with pytest.raises(InvalidInput, match="3 kernels"):
        load_profile(written(tmp_path, trt_profile({"a": 1.0, "b": 1.0, "c": 1.0})))


def test_a_profile_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    whole = json.dumps(ort_profile([("a", 1.0, "Conv")]))
    with pytest.raises(InvalidInput, match="not JSON"):
        load_profile(written(tmp_path, whole[:-20]))


LAYER = {"name": "a", "type": "Conv", "compute_unit": "NPU", "execution_time": 3}
NODE = {"name": "a", "status": "EXECUTED", "node_type": "Relu", "real_time": 0.5}
SHAPED = ort_event("b", 4.0, 9.0, node_index="3", output_type_shape=[{"float": [1, 2]}])
SAMPLES: list[Any] = [
    [*ort_profile([("a", 3.0, "Conv")], runs=3), SHAPED],
    trt_profile({"a": 0.5, "b": 0.25}),
    ai_hub_profile([LAYER, {**LAYER, "execution_cycles": 7}], 60),
    {
        "report_type": "detailed",
        "detailed_performance": [{"nodes": [NODE, NODE]}, {"nodes": [NODE]}],
    },
]  # fmt: skip
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2**70), st.floats(allow_nan=False),
    st.text(max_size=3), st.sampled_from(["9" * 99, "model_run", "_kernel_time", [], {}, "²"]),
)  # fmt: skip


def paths(content: Any) -> list[tuple[Any, ...]]:
    """The way to every value in a sample."""
    inner = (
        content.items() if isinstance(content, dict)
        else enumerate(content) if isinstance(content, list) else ()
    )  # fmt: skip
    return [(), *((key, *way) for key, value in inner for way in paths(value))]


@examples(quick=60, full=1500)
@given(st.sampled_from(SAMPLES), st.data())
def test_whatever_stands_in_a_profile_it_is_read_or_refused(sample: Any, data: Any) -> None:
    content = deepcopy([sample])
    for _ in range(data.draw(st.integers(1, 2))):
        *way, last = data.draw(st.sampled_from(paths(content)[1:]))
        place: Any = content
        for key in way:
            place = place[key]
        place[last] = data.draw(ODD)
    with tempfile.TemporaryDirectory() as folder, suppress(InvalidInput):
        assert load_profile(written(Path(folder), content[0])).total_s > 0


HEAD = "layerName", "realTime (ms)"
CELLS = st.sampled_from([*HEAD, "execStatus", "EXECUTED", "1", "", "Total", "-1"])


@examples(quick=60, full=1500)
@given(st.lists(st.lists(CELLS, max_size=6), max_size=6), st.sampled_from([";", ","]))
def test_whatever_a_table_says_it_is_read_or_refused(rows: list[list[str]], comma: str) -> None:
    text = "\n".join(comma.join(row) for row in [HEAD, *rows])
    with tempfile.TemporaryDirectory() as folder, suppress(InvalidInput):
        assert load_profile(written(Path(folder), text)).total_s > 0
