"""What moved between two answers, and why: planted differences are found, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from answers_on_disk import read_left, small_problem, write_comparison, write_out, write_rows
from browsing import Axe, Open
from hetsim.errors import UsageError
from hetsim.placement.planning import plan
from hetsim.reporting.pages.difference import causes, difference_island
from hetsim.reporting.pages.page import write_page
from hetsim.reporting.pages.records import changes, leaves
from hetsim.reporting.pages.saved import SavedAnswer
from sweeps import examples

COMMAND = ("hetsim", "compare", "a.onnx", "--platform", "p")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two comparisons, of which the second has a slower device and was asked otherwise."""
    folder = tmp_path_factory.mktemp("pair")
    write_comparison(folder / "first.html", small_problem(), COMMAND)
    more = (*COMMAND, "--what-if", "d1.speed x0.25")
    write_comparison(folder / "second.html", small_problem(4.0), more)
    return folder / "first.html", folder / "second.html"


def test_an_answer_beside_itself_moved_nothing(pair: tuple[Path, Path]) -> None:
    one = read_left(pair[0])
    island = difference_island(one, one, ("hetsim", "report"))
    assert island.verdict.say.startswith("No figure and no node changed")
    assert island.verdict.binds.startswith(
        "Model, platform, figures, options and versions are the same"
    )
    assert island.record["figures"] == []
    assert island.record["question"] == []


def test_figures_nodes_and_options_that_moved_are_told(pair: tuple[Path, Path]) -> None:
    first, second = (read_left(path) for path in pair)
    island = difference_island(first, second, ("hetsim", "report"))
    record = island.record
    assert record["question"] == [
        {"sort": "options", "what": "--what-if", "was": None, "is": "d1.speed x0.25"}
    ]
    costs = [left.record["rows"][0]["cost_s"] for left in (first, second)]
    assert {(one["was"], one["is"]) for one in record["figures"]} >= {tuple(costs)}
    was, now = small_problem(), small_problem(4.0)
    before, after = plan(was, "heft").assignment, plan(now, "heft").assignment
    moved = [
        {"node": was.node_names[v], "was": was.devices[a], "is": now.devices[b]}
        for v, (a, b) in enumerate(zip(before, after, strict=True))
        if a != b
    ]
    assert moved
    told = next(one for one in record["moved"] if one["plans"] == ["heft", "heft"])
    assert told["nodes"] == moved


def test_the_difference_can_be_read_by_all(
    pair: tuple[Path, Path], tmp_path: Path, opened: Open, axe: Axe
) -> None:
    first, second = (read_left(path) for path in pair)
    path = tmp_path / "difference.html"
    write_page(difference_island(first, second, ("hetsim", "report")), path)
    one = opened(path)
    one.show("moved")
    assert "Nodes that changed device" in one.page.inner_text("#view-moved")
    assert axe(one) == []


def test_folders_plans_and_sweeps_are_put_beside_each_other(tmp_path: Path) -> None:
    problem = small_problem()
    write_out(tmp_path / "a", problem, "heft")
    write_out(tmp_path / "b", problem, "single:d0")
    first, second = read_left(tmp_path / "a"), read_left(tmp_path / "b")
    record = difference_island(first, second, ()).record
    assert [one["what"] for one in record["question"]] == ["--strategy"]
    on = plan(problem, "heft").assignment
    assert record["moved"][0]["count"] == sum(device != 0 for device in on)
    plans = [read_left(tmp_path / name / "plan.json") for name in ("a", "b")]
    record = difference_island(*plans, ()).record
    assert [one["what"] for one in record["question"]] == ["strategy"]
    write_rows(tmp_path / "s", [0.5, 0.25])
    write_rows(tmp_path / "t", [0.5, 0.75])
    swept = [read_left(tmp_path / name) for name in ("s", "t")]
    record = difference_island(*swept, ()).record
    assert [(one["was"], one["is"]) for one in record["figures"]] == [(0.25, 0.75)]
    assert "s1" in record["figures"][0]["what"]


def test_two_kinds_are_not_beside_each_other(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    write_rows(tmp_path / "s", [0.5])
    with pytest.raises(UsageError, match="'sweep'"):
        difference_island(read_left(pair[0]), read_left(tmp_path / "s"), ())


def problem_of() -> dict[str, Any]:
    """A record's entry of its problem, with everything in it."""
    evidence = {"of": "chip", "status": "fitted", "precision": "int8", "runtime": "r", "kin": "k",
                "within_80": 1.5, "measured_share": 0.0, "sd": 0.3}  # fmt: skip
    return {
        "name": "m on p",
        "fingerprint": "f",
        "model": {"name": "m", "source": "m.onnx", "sha256": "1", "canonical": "offline",
                  "dims": {"batch": 1}, "shapes": {}, "frozen": [], "observed": None},
        "platform": {"name": "p", "source": "p", "sha256": "2"},
        "devices": ["cpu", "npu"],
        "host": "cpu",
        "contention": "fifo",
        "execute": {},
        "cost": "fitted",
        "pessimistic": False,
        "profiles": {},
        "figures": {"weakest": "fitted", "devices": {"npu": evidence}, "links": {"bus": evidence}},
    }  # fmt: skip


def planted(change: Callable[[dict[str, Any]], object]) -> list[tuple[str, str]]:
    """What is found where the second record was changed so."""
    first, second = {"problem": problem_of()}, {"problem": problem_of()}
    second = json.loads(json.dumps(second))
    change(second["problem"])
    found = causes(SavedAnswer("a", "simulate", first), SavedAnswer("b", "simulate", second))
    return [(one.sort, one.change.name) for one in found]


PLANTED: Mapping[str, tuple[Callable[[dict[str, Any]], object], tuple[str, str]]] = {
    "digest": (lambda p: p["model"].update(sha256="9"), ("model", "sha256")),
    "dims": (lambda p: p["model"]["dims"].update(batch=8), ("model", "dims / batch")),
    "platform": (lambda p: p["platform"].update(sha256="9"), ("platform", "sha256")),
    "supposed": (lambda p: p["platform"].update(what_if=["a"]), ("platform", "what_if / a")),
    "devices": (lambda p: p["devices"].append("gpu"), ("platform", "devices")),
    "host": (lambda p: p.update(host="npu"), ("platform", "host")),
    "status": (
        lambda p: p["figures"]["devices"]["npu"].update(status="measured"),
        ("figures", "npu / status"),
    ),
    "interval": (
        lambda p: p["figures"]["links"]["bus"].update(within_80=2.0),
        ("figures", "bus / within_80"),
    ),
    "cost": (lambda p: p.update(cost="roofline"), ("options", "cost")),
    "execute": (lambda p: p["execute"].update(npu="int8"), ("options", "execute / npu")),
    "links": (lambda p: p.update(contention="none"), ("options", "contention")),
    "profile": (
        lambda p: p["profiles"].update(npu={"source": "f", "sha256": "3"}),
        ("figures", "profile of npu"),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_cause_is_found_and_nothing_else(name: str) -> None:
    change, expected = PLANTED[name]
    found = planted(change)
    assert expected in found
    assert len(found) == 1


def test_the_platform_of_a_recommendation_is_no_part_of_its_question() -> None:
    def left(**answered: Any) -> SavedAnswer:
        service = {"problem": problem_of() | answered}
        return SavedAnswer("a", "recommend", {"answer": {"service": service}})

    assert causes(left(), left(devices=["npu"], execute={"npu": "int8"})) == []


def test_versions_are_compared_where_both_tell_them() -> None:
    def left(**versions: str) -> SavedAnswer:
        return SavedAnswer(
            "a", "simulate", {"problem": problem_of()}, manifest={"versions": versions}
        )

    found = causes(left(hetsim="1", onnx="2"), left(hetsim="3"))
    assert [(one.sort, one.change.was, one.change.now) for one in found] == [("versions", "1", "3")]


numbers = st.floats(allow_nan=False, allow_infinity=False, width=32) | st.integers(-99, 99)
records = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
)


@given(first=records, second=records)
@examples(quick=30, full=2000)
def test_leaves_and_changes_are_all_there_is(first: Any, second: Any) -> None:
    assert changes(first, first) == []
    was, now = dict(leaves(first)), dict(leaves(second))
    found = {one.path: (one.was, one.now) for one in changes(first, second)}
    for path in was.keys() | now.keys():
        pair = was.get(path), now.get(path)
        if path in found:
            assert found[path] == pair
        else:
            assert pair[0] == pytest.approx(pair[1])
    back = {one.path: (one.now, one.was) for one in changes(second, first)}
    assert back == found


def test_another_order_of_rows_is_no_difference() -> None:
    rows = [{"strategy": "a", "cost_s": 1.0}, {"strategy": "b", "cost_s": 2.0}]
    assert changes({"rows": rows}, {"rows": rows[::-1]}) == []
