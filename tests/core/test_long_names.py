"""Texts of any length are read in about linear time: with more, these would not end at all."""

from __future__ import annotations

import onnx
import pytest

from hetsim.cost.profiles.names import Names
from hetsim.device.support.rules import cause_of
from hetsim.errors import UsageError, WorkloadError, nearest
from hetsim.execution.transports.ray_actor import node_may_be_gone
from hetsim.graph.reading.session import _translated, gist
from hetsim.hardware.what_if import read_amount
from hetsim.workload.workload import parse_slo

LENGTH = 250_000


def filled(begin: str, part: str, end: str = "") -> str:
    return begin + part * (LENGTH // len(part)) + end


@pytest.mark.parametrize(
    "said",
    [
        filled("Fatal error: my:", ":(1"),
        filled("", 'In Node, ("a", b, '),
        filled('In Node, ("', "\", a, No opset import for domain '"),
        filled("/a:1 ", "a("),
        filled("", "Opset 1 is under domain a is till opset "),
        filled("", "an implementation for A(1) node with name '"),
        filled("find kernel for A(1) (node:'", "'"),
    ],
    ids=["fatal", "node", "domain", "place", "opset", "implementation", "kernel"],
)
def test_what_a_runtime_says_of_long_names(said: str) -> None:
    error = _translated(said, onnx.ModelProto(), "model.onnx", "ONNX Runtime")
    assert error.where is not None
    assert error.where.startswith("model.onnx")
    assert len(str(error)) < 5000
    assert gist(said).endswith("...")


def test_a_long_name_is_told_by_its_ends() -> None:
    name = filled("begin", "x", "end")
    said = f'In Node, ("{name}", Foo, "gone", -1) : Error No opset import for domain \'gone\''
    error = _translated(said, onnx.ModelProto(), "model.onnx", "ONNX Runtime")
    assert "op 'Foo' is of domain 'gone'" in error.what
    assert error.where is not None
    assert "beginx" in error.where
    assert "xend'" in error.where


@pytest.mark.parametrize("text", [filled("p99=1", " ", "!"), filled("", " ", "p")])
def test_objectives(text: str) -> None:
    with pytest.raises(WorkloadError, match="is not an objective"):
        parse_slo(text)


@pytest.mark.parametrize(
    "text",
    [
        filled("a", " ", "b"),
        filled("a", " x", "b"),
        filled("a =1", " ", "!"),
        filled("a", "=1", "!"),
    ],
    ids=["blanks", "times", "behind", "signs"],
)
def test_changes_of_a_platform(text: str) -> None:
    with pytest.raises(UsageError, match="does not end in a change"):
        read_amount(text)


def test_amounts_keep_their_meaning() -> None:
    assert read_amount("link a-b . bandwidth   x 2")[0] == "link a-b . bandwidth"
    assert read_amount("gpu.memory =64 GB ")[1].unit == "GB"
    assert read_amount("x2.memory =2x.y x2")[0] == "x2.memory =2x.y"


def test_reasons() -> None:
    assert cause_of(filled("attribute ", "a of "))[0] == "other"
    assert cause_of(filled("attribute a of b ", "(it takes "))[0] == "other"
    assert cause_of("attribute a of b of c (it takes 1 of (it takes 2))")[0] == "attribute"


@pytest.mark.parametrize(
    "name",
    [
        filled("", "ForeignNode["),
        filled("", "ForeignNode[a...b"),
        filled("x", "_nchwc"),
        filled("x", "/aFusion"),
        filled("", "reformat:"),
    ],
)
def test_names_of_profiles(name: str) -> None:
    assert Names({}, {}, {}, {}).spoken(name) is None


def test_ranges_of_profiles() -> None:
    names = Names({"a": (0,), "b]c": (1,)}, {}, {"a": 0, "b]c": 1}, {})
    found = names.spoken("{ForeignNode[b]c...a]}")
    assert found is not None
    assert found.between == (0, 1)


def test_what_ray_says() -> None:
    assert node_may_be_gone(RuntimeError(filled("", "node ")))


def test_the_nearest_of_many_and_of_long_names() -> None:
    many = [f"resnet_layer_{i}_conv_{i}" for i in range(50_000)]
    assert nearest("resnet_layer_37777_cnv_37777", many) == "did you mean '" + many[37777] + "'?"
    assert nearest("x", many).endswith("and 49984 more")
    assert nearest(filled("", "ab"), [filled("", "ba")]).startswith("choose from: ")
    assert nearest("laptop", [filled("", "ba")]).startswith("choose from: ")
