"""Functions that call functions: what unfolds without end is refused before anything follows it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import onnx
import pytest
from onnx import helper

import hetsim
from onnx_builders import make_model, op, value

IMPORTS = [helper.make_opsetid("", 20), helper.make_opsetid("f", 1)]


def chain(depth: int, calls: int) -> list[onnx.FunctionProto]:
    """F0 calls F1 so often, that F2, and so on; the last is a Relu."""
    found = []
    for level in range(depth):
        name, domain = (f"F{level + 1}", "f") if level < depth - 1 else ("Relu", "")
        ports = ["a", *(f"t{call}" for call in range(calls - 1)), "b"]
        nodes = [op(name, a, b, domain=domain) for a, b in pairwise(ports)]
        found.append(helper.make_function("f", f"F{level}", ["a"], ["b"], nodes, IMPORTS))
    return found


def calling(functions: list[onnx.FunctionProto]) -> onnx.ModelProto:
    nodes = [op("F0", "x", "y", domain="f")]
    return make_model(nodes, [value("x")], [value("y")], functions=functions, domains={"f": 1})


@pytest.mark.parametrize(
    ("depth", "calls", "says"),
    [
        (101, 1, "call each other more than 100 deep"),
        (2_550, 1, "call each other more than 100 deep"),  # overran ONNX Runtime's stack
        (30, 2, "unfold to more than 1000000 nodes"),  # hung
        (3, 101, "unfold to more than 1000000 nodes"),
    ],
)
@pytest.mark.parametrize("where", ["model", "extension", "library"])
def test_functions_that_unfold_to_too_much_are_refused(
    depth: int, calls: int, says: str, where: str, tmp_path: Path
) -> None:
    functions = chain(depth, calls)
    onnx.save(calling(functions), tmp_path / "bodies.onnx")
    onnx.save(calling(functions if where == "model" else []), tmp_path / "model.onnx")
    (tmp_path / "ops.so").write_bytes(b"")
    bodies = str(tmp_path / "bodies.onnx")
    library = f"{tmp_path / 'ops.so'}={bodies}"
    given = {"model": (), "extension": (bodies,), "library": (library,)}[where]
    with pytest.raises(hetsim.ModelError, match=says):
        hetsim.load_model(tmp_path / "model.onnx", extensions=given)


def test_functions_that_call_themselves_are_refused(tmp_path: Path) -> None:
    first, second = chain(2, 1)
    second.node[0].op_type, second.node[0].domain = "F0", "f"
    onnx.save(calling([first, second]), tmp_path / "model.onnx")
    with pytest.raises(hetsim.ModelError, match=r"function 'F\d' calls itself"):
        hetsim.load_model(tmp_path / "model.onnx")


def test_functions_of_functions_are_read(tmp_path: Path) -> None:
    onnx.save(calling(chain(5, 3)), tmp_path / "model.onnx")
    assert {node.op_type for node in hetsim.load_model(tmp_path / "model.onnx").graph.nodes} == {
        "Relu"
    }
    onnx.save(calling(chain(30, 1)), tmp_path / "deep.onnx")
    assert len(hetsim.load_model(tmp_path / "deep.onnx").graph.nodes) == 1
