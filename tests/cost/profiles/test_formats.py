"""What each format says of a kernel, field by field: what is absent, odd, or at a border."""

from __future__ import annotations

import json
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
from profile_builders import ai_hub_profile, openvino_table, ort_event, ort_run, written
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
    assert "cycles are turned to seconds" in profile.rule
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


@pytest.mark.parametrize("cycles", ["0", 0, "-0", None, 0.0])
def test_ai_hub_layers_of_no_cycles_have_no_times(read: Any, cycles: Any) -> None:
    content = ai_hub_profile([layer(name, execution_cycles=cycles) for name in "ab"], 60)
    with pytest.raises(InvalidInput, match="its layers have no times"):
        read(content)


def test_ai_hub_cycles_are_no_times_without_that_of_an_inference(read: Any) -> None:
    content = ai_hub_profile([layer("a", execution_cycles=5)], 60)
    del content["execution_summary"]
    with pytest.raises(InvalidInput, match="its layers have no times"):
        read(content)


def test_tensorrt_figures_are_of_the_count_that_it_says(read: Any) -> None:
    for head, runs in (([], 1), ([{"count": 0}], 1), ([{"count": 8}], 8), ([{"count": "4"}], 4)):
        profile = read([*head, {"name": "a", "timeMs": 8}, {"note": 1}])
        assert profile.runs == runs
        assert seconds(profile) == pytest.approx({"a": 8e-3 / runs})
        assert profile.rule.startswith("means, for it has no medians,")
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


@pytest.mark.parametrize(
    ("content", "known"),
    [
        ([{"name": "a", "averageMs": 1}], True),
        ([{"name": "a", "timeMs": 1}], True),
        ([{"averageMs": 1}], False),
        ([{"name": "a", "cat": "Node", "ph": "X"}], True),
        ([{"name": "a", "cat": "Session", "ph": "X"}], True),
        ([{"name": "a", "cat": "Node"}], False),
        ([{"name": "a", "cat": "Other", "ph": "X"}], False),
        ({"execution_detail": []}, True),
        ({"avg_performance": {}}, True),
        ({"detailed_performance": []}, True),
        ({"performance": []}, False),
    ],
)
def test_a_format_is_known_by_what_it_has(read: Any, content: Any, known: bool) -> None:
    """What is of a format but says too little is refused for that, not as unknown."""
    said = ""
    try:
        read(content)
    except InvalidInput as error:
        said = str(error)
    assert ("not a profile of a format that is known" in said) != known


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
    with pytest.raises(InvalidInput, match="no layer that was executed"):
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


def test_onnx_runtime_kernels_of_one_node_in_a_run_add_up(read: Any) -> None:
    runs = [(0, (9, 9, 9)), (100, (1, 2)), (200, (5,)), (300, (1, 1, 2))]
    rows = [ort_run(at, 90) for at, _ in runs]
    rows += [ort_event("a", us, at + 10 * k) for at, each in runs for k, us in enumerate(each)]
    (kernel,) = read(rows).kernels
    assert (kernel.low_s, kernel.seconds, kernel.high_s) == pytest.approx((3e-6, 4e-6, 5e-6))


def test_onnx_runtime_events_inside_others_are_part_of_them_on_their_thread_alone(
    read: Any,
) -> None:
    def at(name: str, begin: float, end: float, thread: int = 7) -> dict[str, Any]:
        return {**ort_event(name, end - begin, begin), "tid": thread}

    rows = [at("loop", 10, 50), at("first", 10, 20), at("last", 40, 50), at("whole", 10, 50)]
    # One that only touches another, or outlasts it, is not inside it.
    rows += [at("after", 50, 60), at("none", 80, 80), at("over", 55, 70), at("other", 20, 30, 8)]
    found = seconds(read(rows))
    assert found == pytest.approx(
        {"loop": 40e-6, "after": 10e-6, "none": 0.0, "over": 15e-6, "other": 10e-6}
    )


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


@pytest.mark.parametrize(
    ("value", "fine"),
    [(86400, True), (86400.01, False), (0, False), (-1e-300, False), ("3", True), ("1e3 ", True)],
)
def test_a_time_is_from_nothing_to_a_day(read: Any, value: Any, fine: bool) -> None:
    content = {
        "execution_detail": [layer("a", execution_time=1e-3), layer("b", execution_time=value)]
    }
    if isinstance(value, int | float) and value:
        content["execution_detail"][1]["execution_time"] = value * 1e6
    if fine:
        assert seconds(read(content))["b"] == pytest.approx(
            float(content["execution_detail"][1]["execution_time"]) * 1e-6
        )
    elif not value:
        assert seconds(read(content))["b"] == 0.0
    else:
        with pytest.raises(InvalidInput, match=r"a day|from 0 on"):
            read(content)


def test_a_name_is_as_long_as_it_may_be(read: Any) -> None:
    for length, fine in ((formats.LONGEST_NAME, True), (formats.LONGEST_NAME + 1, False)):
        content = {"execution_detail": [layer("n" * length, execution_time=1)]}
        if fine:
            assert len(read(content).kernels[0].name) == length
        else:
            with pytest.raises(InvalidInput, match="a text too long, not a name"):
                read(content)
    for odd, kind in ((None, "NoneType"), (3, "int")):
        content = {"execution_detail": [{"name": odd, "execution_time": 1}]}
        with pytest.raises(InvalidInput, match=f"the name of a layer is {kind}, not a name"):
            read(content)


def test_complaints_show_no_more_of_a_text_than_its_beginning(read: Any) -> None:
    for length, shown in ((60, "k" * 60 + "'"), (61, "k" * 60 + "...'")):
        twice = json.dumps({"execution_detail": 1})[:-1] + f', "{"k" * length}": 1' * 2 + "}"
        with pytest.raises(InvalidInput) as caught:
            read(twice)
        assert f"an object says '{shown} twice" in str(caught.value)
    with pytest.raises(InvalidInput, match="an execution_time is 'x', not a number"):
        read({"execution_detail": [layer("a", execution_time="x")]})
    for odd in (True, [1], {}):
        with pytest.raises(InvalidInput, match=f"is {type(odd).__name__}, not a number"):
            read({"execution_detail": [layer("a", execution_time=odd)]})
    with pytest.raises(InvalidInput, match="execution_detail is no list of objects"):
        read({"execution_detail": [layer("a", execution_time=1), 7]})


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


@examples(quick=40, full=500)
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


def test_onnx_runtime_an_event_of_no_time_at_the_very_beginning_is_one(read: Any) -> None:
    profile = read([ort_event("first", 0, 0), ort_event("a", 3, 1)])
    assert seconds(profile) == {"first": 0.0, "a": pytest.approx(3e-6)}
