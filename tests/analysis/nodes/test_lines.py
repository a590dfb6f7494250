"""Each cell of a line of CSV, for a plan that is small enough to be told by hand."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from hetsim.analysis.nodes.nodes import Nodes, nodes
from hetsim.hardware.catalog import load_platform
from hetsim.placement.planning import plan
from hetsim.problem.groups import Group
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from onnx_builders import load, make_model, op, value
from three_nodes import back_and_forth


def lines(told: Nodes) -> list[dict[str, str]]:
    text = told.to_csv()
    assert text.endswith("\r\n")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def problem() -> Problem:
    """Two of the nodes are one kernel on the cpu."""
    return back_and_forth(composites=[(0, (0, 1), 5.0)], dispatch_s=[0.25, 0.5])


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠"])  # noqa: RUF001
def test_no_text_begins_as_a_formula(tmp_path: Path, begin: str) -> None:
    names = [f"{begin}{name}" for name in ("SUM(A1)", "out", "x")]
    node, output, given = names
    proto = make_model([op("Neg", "x", "y", node)], [value("x")], [value("y")])
    proto.graph.node[0].input[0] = proto.graph.input[0].name = given
    proto.graph.node[0].output[0] = proto.graph.output[0].name = output
    model = load(proto, tmp_path, canonical="none")
    question = Problem.of(model, load_platform("laptop"))
    text = nodes(plan(question, "single:cpu")).to_csv()
    [line] = csv.DictReader(io.StringIO(text, newline=""))
    assert (line["file_node"], line["output"]) == (f"'{node}", f"'{output}")
    for row in csv.reader(io.StringIO(text, newline="")):
        assert not [cell for cell in row if cell.startswith(begin)]


def test_every_cell_is_what_the_plan_and_the_devices_say() -> None:
    made = Plan(problem(), "by hand", (Group("cpu", (0, 1)), Group("npu", (2,))))
    first, second, third = lines(nodes(made, device="npu"))
    assert (first["file_node"], first["node"], first["op"], first["replica"]) == (
        "n0", "n0", "Task", "0",
    )  # fmt: skip
    for line, share, kernel in (
        (first, "2.0", "5.0"),
        (second, "3.0", "5.0"),
        (third, "1.0", "1.0"),
    ):
        assert line["node_seconds"] == line["seconds"] == share
        assert line["kernel_seconds"] == kernel
    assert [line["device"] for line in (first, second, third)] == ["cpu", "cpu", "npu"]
    assert [(line["group"], line["kernel"]) for line in (first, second, third)] == [
        ("0", "0"), ("0", "0"), ("1", "1"),
    ]  # fmt: skip
    assert [line["preferred"] for line in (first, second, third)] == ["npu"] * 3
    assert [line["supposed"] for line in (first, second, third)] == ["no", "yes", "no"]
    assert (first["takes:cpu"], first["seconds:cpu"], first["why_not:cpu"]) == ("alone", "2.0", "")
    assert (second["takes:npu"], second["seconds:npu"]) == ("no", "")
    assert second["why_not:npu"] == second["why"] == "inf in seconds"
    assert first["why"] == "the plan's choice: npu takes it, too"
    assert (first["preferred_seconds"], third["preferred_seconds"]) == ("1.0", "1.0")
    # What moves to the third is charged to the second, which is where it is not wanted.
    assert [line["moves_seconds"] for line in (first, second, third)] == ["0.0", "2.0", "0.0"]
    assert [line["cost_seconds"] for line in (first, third)] == ["1.0", "0.0"]
    supposed = float(second["preferred_seconds"])
    assert float(second["cost_seconds"]) == pytest.approx(3.0 - supposed + 2.0)


def test_groups_have_their_dispatch_and_what_they_stage() -> None:
    made = Plan(problem(), "by hand", (Group("cpu", (0, 1)), Group("npu", (2,))))
    told = nodes(made)
    assert [(one.device, one.nodes, one.dispatch_s, one.staged_s, one.seconds)
            for one in told.groups] == [
        ("cpu", (0, 1), 0.25, 0.0, 5.25), ("npu", (2,), 0.5, 0.0, 1.5),
    ]  # fmt: skip
    (moved,) = told.moved
    assert (moved.tensor, moved.source, moved.target) == ("t1", "cpu", "npu")
    assert (moved.nbytes, moved.seconds, moved.charged) == (16, 2.0, ())
    (charged,) = nodes(made, device="npu").moved
    assert charged.charged == (1,)
