"""Arrays as callers may have them: other byte orders, layouts and types, on every way in."""

from __future__ import annotations

from itertools import cycle, product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import hetsim
from execution.conftest import Cut
from hetsim import backend
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from hetsim.errors import RequestError
from hetsim.execution.compiled.run import open_compiled, run_compiled
from hetsim.execution.compiled.write import compile_plan
from onnx_builders import bits, make_model, op, save, value
from sweeps import sweep

GROUPS: list[tuple[str, list[int]]] = [("cpu", [0]), ("npu", [1])]
X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def negating(dtype: str = "FLOAT") -> onnx.ModelProto:
    """What is negated, and as it is: also what no device has touched leaves as native bytes."""
    return make_model(
        [op("Neg", "x", "a"), op("Neg", "a", "b")],
        [value("x", (2, 3), dtype)],
        [value("a", (2, 3), dtype), value("b", (2, 3), dtype), value("x", (2, 3), dtype)],
    )


def unaligned(array: NDArray[Any]) -> NDArray[Any]:
    room = np.zeros(array.nbytes + 1, np.uint8)
    room[1:] = np.frombuffer(array.tobytes(), np.uint8)
    return room[1:].view(array.dtype).reshape(array.shape)


ODD = {
    "big-endian": X.astype(">f4"),
    "Fortran": np.asfortranarray(X),
    "every other": np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": X[::-1, ::-1].copy()[::-1, ::-1],
    "big-endian and backwards": X[::-1].astype(">f4")[::-1],
    "broadcast": np.broadcast_to(X[:1], (2, 3)),
    "unaligned": unaligned(X),
    "unaligned and big-endian": unaligned(X.astype(">f4")),
    "read-only": np.frombuffer(X.tobytes(), np.float32).reshape(2, 3),
}


WAYS = ("run", "session", "backend", "folder", "kernels")


@sweep(
    "way, name",
    quick=[*zip(cycle(WAYS[:-1]), ODD, strict=False), *product(WAYS[-1:], ODD)],
    full=product(WAYS, ODD),
)
def test_odd_arrays_are_computed_by_value(way: str, name: str, cut: Cut, tmp_path: Path) -> None:
    proto, given = negating(), {"x": ODD[name]}
    if way == "backend":
        found = dict(zip(("a", "b", "x"), backend.prepare(proto).run(given), strict=True))
    elif way == "kernels":
        found = CompiledSubgraph(proto.SerializeToString(), None, ("a", "b", "x")).run(given)
    elif way == "folder":
        path = save(proto, tmp_path)
        problem = hetsim.Problem.of(
            hetsim.load_model(path, canonical="none"), hetsim.load_platform("laptop")
        )
        compile_plan(hetsim.plan(problem, "single:cpu"), tmp_path / "folder")
        done = run_compiled(open_compiled(tmp_path / "folder"), given, executor="threads")
        assert done.bitwise_equal is True
        found = done.outputs
    elif way == "session":
        with hetsim.Session(cut(proto, GROUPS), "threads") as session:
            found = session.run(given)
    else:
        result = hetsim.run(cut(proto, GROUPS), given, executor="threads")
        assert result.bitwise_equal is True
        assert result.reference is not None
        assert bits(result.reference["a"]) == bits(-np.ascontiguousarray(values_of(name)))
        found = result.outputs
    x = np.ascontiguousarray(values_of(name))
    assert bits(found) == bits({"a": -x, "b": x, "x": x})


def values_of(name: str) -> NDArray[np.float32]:
    """The values of an odd array, element by element."""
    return np.array([[float(entry) for entry in row] for row in ODD[name]], np.float32)


@pytest.mark.parametrize(
    ("dtype", "array", "says"),
    [
        ("FLOAT", X.astype(object), "its dtype is object, but the model reads float32"),
        ("FLOAT", X.astype(">f8"), "its dtype is float64, but the model reads float32"),
        ("FLOAT", X.astype(">i4"), "its dtype is int32"),
        ("FLOAT", np.ma.masked_array(X, X > 2), "a masked array.* fill it with .filled"),
        ("FLOAT", X.view([("x", "f4")]), "its dtype is void"),
        (
            "STRING",
            np.array([["a", None, "b"]] * 2, object),
            "an entry of type NoneType, but the model reads str",
        ),
        (
            "STRING",
            np.array([["a", "b", 1.5]] * 2, object),
            "an entry of type float, but the model reads strings",
        ),
        ("STRING", np.array([[b"a"] * 3] * 2), "its dtype is bytes8"),
    ],
)
def test_what_cannot_be_converted_is_refused(cut: Cut, dtype: str, array: Any, says: str) -> None:
    proto = make_model(
        [op("Identity", "x", "a"), op("Identity", "a", "b")],
        [value("x", (2, 3), dtype)],
        [value("b", (2, 3), dtype)],
    )
    with pytest.raises(RequestError, match=says):
        hetsim.run(cut(proto, GROUPS), {"x": array}, executor="threads")
