"""Profiles of every format, read field by field; broken and hostile files refused."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hetsim.cost.profiles import formats
from hetsim.cost.profiles.formats import Profile, load_profile
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


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Read what a file of this content says."""

    def reads(content: Any) -> Profile:
        return load_profile(written(tmp_path, content))

    return reads


def seconds(profile: Profile) -> dict[str, float]:
    """Times by name; where a profile has one figure of a kernel, all three are that."""
    assert all(k.low_s <= k.seconds <= k.high_s for k in profile.kernels)
    return {kernel.name: kernel.seconds for kernel in profile.kernels}


def layer(name: str, **said: Any) -> dict[str, Any]:
    return {"name": name, "type": "Conv2d", "compute_unit": "NPU", **said}


def test_ai_hub_layers_without_a_time_or_cycles_took_none(read: Any) -> None:
    timed = [layer("a", execution_time=30), layer("b"), layer("c", execution_time=None)]
    profile = read(ai_hub_profile(timed, 50))
    assert seconds(profile) == pytest.approx({"a": 30e-6, "b": 0.0, "c": 0.0})
    assert profile.between_s == pytest.approx(20e-6)
    assert "cycles" not in profile.rule
    counted = [layer("a", execution_cycles=30), layer("b"), layer("c", execution_cycles=90)]
    profile = read(ai_hub_profile(counted, 60))
    assert seconds(profile) == pytest.approx({"a": 15e-6, "b": 0.0, "c": 45e-6})
    assert profile.between_s == pytest.approx(0.0)
    assert "cycles are converted to seconds" in profile.rule
    both = [layer("a", execution_time=30, execution_cycles=1), layer("b", execution_cycles=999)]
    assert seconds(read(ai_hub_profile(both, 60))) == pytest.approx({"a": 30e-6, "b": 0.0})


def test_ai_hub_says_how_often_it_ran_and_what_ran_where(read: Any) -> None:
    content = ai_hub_profile([layer("a", execution_time=30), layer("b", execution_time=10)], 60)
    (first, _) = read(content).kernels
    assert (first.low_s, first.seconds, first.high_s) == pytest.approx((30e-6,) * 3)
    assert (first.op, first.unit, first.index, first.elements) == ("Conv2d", "NPU", None, None)
    for times, runs in (([1.0] * 5, 5), ([], 1), (None, 1), ("abc", 1)):
        content["execution_summary"]["all_inference_times"] = times
        assert read(content).runs == runs
    for odd in (None, 7, ["x"]):
        content["execution_detail"][0].update(type=odd, compute_unit=odd)
        assert (read(content).kernels[0].op, read(content).kernels[0].unit) == ("", "")
    # What runs outside of kernels takes no negative time.
    content["execution_summary"]["estimated_inference_time"] = 39
    assert read(content).between_s == 0.0
    for summary in (None, {}, [], {"estimated_inference_time": None}):
        content["execution_summary"] = summary
        assert (read(content).between_s, read(content).runs) == (None, 1)


def test_tensorrt_figures_are_of_the_count_that_it_says(read: Any) -> None:
    for head, runs in (([], 1), ([{"count": 0}], 1), ([{"count": 8}], 8), ([{"count": "4"}], 4)):
        profile = read([*head, {"name": "a", "timeMs": 8}, {"note": 1}])
        assert profile.runs == runs
        assert seconds(profile) == pytest.approx({"a": 8e-3 / runs})
        assert profile.rule.startswith("means, because it has no medians,")
    # It stands at the head: what comes behind it is of no layer.
    two = read([{"count": 4}, {"name": "a", "timeMs": 8}, {"count": 2}])
    assert (two.runs, seconds(two)) == (4, {"a": pytest.approx(2e-3)})
    rows = [{"count": 2}, {"name": "a", "timeMs": 8, "averageMs": 4, "medianMs": 3}]
    profile = read(rows)
    assert (seconds(profile), profile.rule[:8]) == ({"a": pytest.approx(3e-3)}, "medians ")
    assert profile.ordered
    # One layer without a median, and they are not all medians.
    for more in ({"averageMs": 5}, {"timeMs": 10}):
        profile = read([*rows, {"name": "b", **more}])
        assert seconds(profile)["b"] == pytest.approx(5e-3)
        assert profile.rule.startswith("means")


def test_openvino_tables_say_by_their_head_what_columns_hold(read: Any) -> None:
    plain = "layerName;execStatus;layerType;realTime (ms)\n"
    rows = "a;EXECUTED;Add;2\nb;Status.EXECUTED;Mul;3\nc;NOT_RUN;Mul;9\nd;OPTIMIZED_OUT;Mul;9\n"
    profile = read(plain + rows)
    assert seconds(profile) == pytest.approx({"a": 2e-3, "b": 3e-3})
    assert [kernel.op for kernel in profile.kernels] == ["Add", "Mul"]
    assert (profile.ordered, profile.runs, profile.between_s) == (True, 1, None)
    assert profile.totals_s == pytest.approx((5e-3,))
    commas = (plain + rows).replace(";", ",")
    assert read(commas).kernels == profile.kernels
    # A table by share of the time is none in the order of a run; without a status all ran.
    by_time = read("layerName;realTime (uS);percent (%)\na;2;40\nb;3;60\nTotal;5;100\n")
    assert (by_time.ordered, seconds(by_time)) == (False, pytest.approx({"a": 2e-6, "b": 3e-6}))
    assert [kernel.op for kernel in by_time.kernels] == ["", ""]
    with pytest.raises(InvalidInput, match="has no column realTime"):
        read("layerName;execStatus\na;EXECUTED\n")
    with pytest.raises(InvalidInput, match="no executed layer"):
        read(plain + "a;NOT_RUN;Add;2\n")
    # All that a short row has is counted, an empty end too.
    with pytest.raises(InvalidInput, match="a row of its table has 3 columns, its head 4"):
        read(plain + "a;EXECUTED;\n")


def test_openvino_layers_of_several_requests_are_medians_and_add_up_within_one(read: Any) -> None:
    requests = [[("a", "EXECUTED", "Add", ms), ("a", "EXECUTED", "Add", 1.0)] for ms in (1, 5, 2)]
    requests[1].append(("b", "EXECUTED", "Add", 4.0))
    profile = read(openvino_table(requests))
    assert seconds(profile) == pytest.approx({"a": 3e-3, "b": 0.0})
    assert (profile.kernels[0].low_s, profile.kernels[0].high_s) == pytest.approx((2e-3, 6e-3))
    assert profile.totals_s == pytest.approx((2e-3, 10e-3, 3e-3))
    assert profile.runs == 3
    # A request of which nothing ran is none.
    idle = [*requests, [("a", "NOT_RUN", "Add", 0.0)]]
    assert read(openvino_table(idle)).totals_s == profile.totals_s


@pytest.mark.parametrize(
    ("said", "share", "ordered"),
    [
        ({"report_type": "detailed"}, {}, True),
        ({"report_type": "average"}, {}, True),
        ({"report_type": "sort_detailed"}, {}, False),
        ({}, {}, False),
        ({"report_type": "detailed"}, {"%": 50}, False),
    ],
)
def test_openvino_json_is_in_the_order_of_a_run_where_it_says_so(
    read: Any, said: Any, share: Any, ordered: bool
) -> None:
    row = {"name": "a", "status": "EXECUTED", "node_type": "Add", "real_time": 2.0, **share}
    idle = {"name": "b", "status": "NOT_RUN"}
    for key, one in (("detailed_performance", [{"nodes": [row, idle]}]),
                     ("avg_performance", {"nodes": [idle, row]})):  # fmt: skip
        profile = read({**said, key: one})
        assert seconds(profile) == {"a": pytest.approx(2e-3)}
        assert (profile.ordered, profile.kernels[0].op) == (ordered, "Add")


def test_onnx_runtime_kernels_are_of_the_run_that_they_begin_in(read: Any) -> None:
    rows = [ort_event("early", 5, 0), ort_run(100, 50), ort_event("a", 9, 100), ort_run(200, 50)]
    rows += [ort_event("a", 3, 200), ort_event("b", 4, 250), ort_event("late", 4, 251)]
    profile = read(rows)
    assert seconds(profile) == pytest.approx({"a": 3e-6, "b": 4e-6})
    assert (profile.runs, profile.totals_s) == (1, pytest.approx((7e-6,)))
    assert profile.between_s == pytest.approx(43e-6)
    # The one run that there is counts, though it warms up.
    alone = read(rows[:3])
    assert (seconds(alone), alone.runs) == ({"a": pytest.approx(9e-6)}, 1)
    assert (alone.between_s, alone.rule[:7]) == (pytest.approx(41e-6), "one run")
    # A run without kernels: what is between them cannot be told.
    assert read([*rows, ort_run(300, 50)]).between_s is None


def test_onnx_runtime_events_tell_node_op_unit_and_size(read: Any) -> None:
    def only(**said: Any) -> Any:
        event = ort_event("a", 3, 0)
        event["args"] = said
        return read([event]).kernels[0]

    found = only(op_name="Conv", provider="P", node_index="12", output_type_shape=[{"f": [2, 3]}])
    assert (found.op, found.unit, found.index, found.elements) == ("Conv", "P", 12, 6)
    assert only(graph_index="4").index == 4
    assert only(node_index="5", graph_index="4").index == 5
    assert only(node_index="9" * 9).index == 10**9 - 1
    for number in ("9" * 10, "x", 3, "²", ""):
        assert only(node_index=number).index is None
    assert only(op_name=3, provider=None) == only()
    assert (only().op, only().unit, only().elements) == ("", "", None)
    sizes: list[tuple[Any, int | None]] = [
        ([{"f": []}], 1), ([{"f": [0, 5]}], 0), ([{"f": [4]}, {"f": [9]}], 4), ([], None),
        ({"f": [4]}, None), ([4], None), ([{}], None), ([{"f": 4}], None), ([{"f": [-1]}], None),
        ([{"f": [True]}], None), ([{"f": [2.0]}], None), ([{"f": [2**80, 4]}], 2**62),
        ([{"f": [1] * 15 + [7]}], 7),
    ]  # fmt: skip
    for shapes, elements in sizes:
        assert only(output_type_shape=shapes).elements == elements, shapes
    event = ort_event("a", 3, 0)
    assert read([{**event, "args": None}]).kernels[0] == only()
    # What is no kernel's, or has no name, is passed over.
    others = [{**event, "name": None}, {**event, "cat": "Api"}, {**event, "name": "a_fence_before"}]
    assert seconds(read([*others, event])) == pytest.approx({"a": 3e-6})
    with pytest.raises(InvalidInput, match=r"no '\.\.\._kernel_time' event"):
        read(others)


@st.composite
def spans(draw: st.DrawFn, begin: int = 0, end: int = 12, deep: int = 3) -> list[tuple[int, int]]:
    """Times that lie side by side or within each other, as the calls of one thread do."""
    found: list[tuple[int, int]] = []
    cuts = sorted(draw(st.lists(st.integers(begin, end), max_size=4)))
    for low, high in pairwise(cuts):
        if low < high and draw(st.booleans()):
            found.append((low, high))
            if deep:
                found += draw(spans(low, high, deep - 1))
    return found


@examples(quick=25, full=500)
@example([[(0, 11), (10, 11)]], 52, Random(0))
@given(st.lists(spans(), min_size=1, max_size=2), st.integers(0, 10**6), st.randoms())
def test_onnx_runtime_what_lies_inside_another_counts_once(
    threads: list[list[tuple[int, int]]], since: int, random: Any
) -> None:
    """Also where both end in the same microsecond, whenever that is."""
    rows, alone = [], 0
    for thread, given_spans in enumerate(threads):
        each = sorted(set(given_spans))
        rows += [
            {**ort_event(f"k{thread}.{low}.{high}", high - low, since + low), "tid": thread}
            for low, high in each
        ]
        alone += sum(
            high - low
            for low, high in each
            if not any((a, b) != (low, high) and a <= low and high <= b for a, b in each)
        )
    random.shuffle(rows)
    assume(rows)
    with TemporaryDirectory() as folder:
        assert load_profile(written(Path(folder), rows)).total_s == pytest.approx(alone * 1e-6)


def test_onnx_runtime_takes_the_median_of_the_runs_but_the_first(read: Any) -> None:
    rows = []
    for at, took in ((0, 900.0), (10_000, 30.0), (20_000, 10.0), (30_000, 20.0)):
        rows += [ort_event("a", took, at + 5, "Conv"), ort_run(at, took + 15)]
    profile = read(rows)
    assert profile.format == "ONNX Runtime profile"
    (kernel,) = profile.kernels
    assert (kernel.name, kernel.op, kernel.unit) == ("a", "Conv", "CPUExecutionProvider")
    assert (kernel.low_s, kernel.seconds, kernel.high_s) == pytest.approx((10e-6, 20e-6, 30e-6))
    assert profile.runs == 3
    assert "first run" in profile.rule
    assert profile.totals_s == pytest.approx((30e-6, 10e-6, 20e-6))
    assert profile.between_s == pytest.approx(15e-6)


def test_onnx_runtime_without_runs_counts_how_often_a_kernel_ran(read: Any) -> None:
    rows = [ort_event("a", us, at) for at, us in ((0, 99.0), (200, 3.0), (400, 5.0))]
    profile = read(rows)
    assert seconds(profile) == pytest.approx({"a": 4e-6})
    assert profile.runs == 2
    assert profile.between_s is None
    one = read(rows[:1])
    assert seconds(one) == pytest.approx({"a": 99e-6})
    assert "one run" in one.rule


def test_a_name_may_hold_what_separates_columns(read: Any) -> None:
    table = openvino_table([[("a;b", "EXECUTED", "Add", 1.0), ("c", "EXECUTED", "Add", 2.0)]])
    open_end = table.replace(";2.000;2.000", ";2.000;")
    for text in (table, table.replace("\n", ";\n"), open_end):
        assert seconds(read(text)) == pytest.approx({"a;b": 1e-3, "c": 2e-3})
    with pytest.raises(InvalidInput, match="a row of its table has 2 columns, its head 6"):
        read(table + "conv1;EXECUTED\n")


@pytest.mark.parametrize(
    "text",
    ["", "hello", "{}", "[]", "[1]", '{"a": [1]}', "a;b;c\n1;2;3", '[{"name": "a"}]', "null"],
)
def test_what_is_no_profile_is_told_what_is_read(read: Any, text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(text)
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
    with pytest.raises(InvalidInput, match="the total time of its kernels is 0"):
        load_profile(written(tmp_path, trt_profile({"a": 0.0})))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match="not a text file"):
        load_profile(tmp_path / "binary")
    with pytest.raises(InvalidInput, match="cannot read"):
        load_profile(tmp_path)
    with pytest.raises(InvalidInput, match="no such file"):
        load_profile(tmp_path / "none.json")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match="not a regular file"):
        load_profile(tmp_path / "pipe")
    monkeypatch.setattr(formats, "LIMIT_BYTES", 100)
    with pytest.raises(InvalidInput, match="larger than 100 bytes"):
        load_profile(written(tmp_path, ort_profile([("a", 1.0, "Conv")])))
    monkeypatch.undo()
    monkeypatch.setattr(formats, "MOST_KERNELS", 2)
    with pytest.raises(InvalidInput, match="3 kernels"):
        load_profile(written(tmp_path, trt_profile({"a": 1.0, "b": 1.0, "c": 1.0})))


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


@examples(quick=5, full=1500)
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


@examples(quick=50, full=1500)
@given(st.lists(st.lists(CELLS, max_size=6), max_size=6), st.sampled_from([";", ","]))
def test_whatever_a_table_says_it_is_read_or_refused(rows: list[list[str]], comma: str) -> None:
    text = "\n".join(comma.join(row) for row in [HEAD, *rows])
    with tempfile.TemporaryDirectory() as folder, suppress(InvalidInput):
        assert load_profile(written(Path(folder), text)).total_s > 0
