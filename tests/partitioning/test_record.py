"""The partition record answers by itself: borders, reasons, JSON, pictures, ONNX."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

import hetsim
from builders import BOX
from hetsim.errors import InvalidInput, UsageError
from hetsim.partitioning.affinity import Exclusion
from hetsim.partitioning.partition import Partition
from hetsim.partitioning.record import to_dot, to_mermaid
from hetsim.problem.problem import Problem


@pytest.fixture(scope="module")
def made() -> Partition:
    model, platform = hetsim.load_model("zoo:squeezenet"), hetsim.load_platform(BOX)
    pools = hetsim.Affinity(exclude=(Exclusion(ops=("MaxPool",)),))
    return hetsim.partition(Problem.of(model, platform), affinity=pools)


def test_two_nodes_by_name_or_id(made: Partition) -> None:
    names = made.problem.node_names
    assert made.explain(0, 1) == made.explain(names[0], names[1])
    with pytest.raises(UsageError, match="no node 9999"):
        made.explain(0, 9999)


def test_onnx_in_every_form(made: Partition, tmp_path: Path) -> None:
    split = made.to_onnx()
    assert len(split.functions) == len(split.graph.node) == len(made.groups)
    assert len(made.to_models()) == len(made.groups)
    assert len(made.to_annotated().graph.node) == made.problem.n
    names = made.save_onnx(tmp_path / "parts")
    assert len(names) == len(made.groups) + 2
    for name in names:
        onnx.checker.check_model(tmp_path / "parts" / name, full_check=True)


def test_a_folder_that_cannot_be_written_is_named(made: Partition, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"file/parts: cannot write: Not a directory"):
        made.save_onnx(tmp_path / "file" / "parts")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def awkward() -> Problem:
    plain = Problem.from_arrays(
        [[1, 1], [1, float("inf")], [1, 1]],
        edges=[(0, 1, 4), (1, 2, 4)],
        devices=("cpu", 'n"pu'),
        host=0,
    )
    fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
    return Problem(**{**fields, "node_names": ('a"]', "b\n{}", "c\\")})


def test_mermaid() -> None:
    problem = awkward()
    text = to_mermaid(problem, hetsim.partition(problem).groups)
    assert text.startswith("flowchart TD\n")
    assert re.findall(r"n(\d) --> n(\d)", text) == [("0", "1"), ("1", "2")]
    assert sorted(re.findall(r"^    n(\d)\[", text, re.MULTILINE)) == ["0", "1", "2"]
    assert len(re.findall(r"^  subgraph g\d\[\"g\d on ", text, re.MULTILINE)) == 3
    labels = re.findall(r'\["(.*)"\]$', text, re.MULTILINE)
    assert len(labels) == 6
    assert all('"' not in label and "]" not in label for label in labels)


def test_dot() -> None:
    problem = awkward()
    text = to_dot(problem, hetsim.partition(problem).groups)
    assert re.findall(r"n(\d) -> n(\d);", text) == [("0", "1"), ("1", "2")]
    assert len(re.findall(r"subgraph cluster_\d", text)) == 3
    assert text.count("{") - text.count("b\\\\n{}") == text.count("}") - text.count("b\\\\n{}")
    # Quotes are balanced once escaped ones are taken out.
    assert re.sub(r"\\.", "", text).count('"') % 2 == 0
