"""A model of a real library's custom op, and function bodies that say what it does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from onnx_builders import make_model, op, save, value

LIBRARY: str = pytest.importorskip(
    "onnxruntime_extensions", reason="there is no build of it for this Python"
).get_library_path()
DOMAIN = "ai.onnx.contrib"


def neg_pos() -> onnx.FunctionProto:
    """What the library's NegPos does: the negative and the positive part."""
    nodes = [
        op("Constant", "", "zero", value_float=0.0),
        op("Min", "x zero", "negative"),
        op("Max", "x zero", "positive"),
    ]
    opsets = [helper.make_opsetid("", 20)]
    return helper.make_function(DOMAIN, "NegPos", ["x"], ["negative", "positive"], nodes, opsets)


def bodies(folder: Path) -> Path:
    held = make_model([op("Identity", "x", "y")], [value("x")], [value("y")], functions=[neg_pos()])
    return save(held, folder, "bodies.onnx")


def user(folder: Path) -> Path:
    nodes = [
        op("Mul", "x w", "m"),
        op("NegPos", "m", "n p", "split", domain=DOMAIN),
        op("Add", "n x", "y"),
        op("Exp", "p", "z"),
    ]
    constants = {"w": np.full((2, 3), -2, np.float32)}
    outputs = [value("y", None), value("z", None)]
    proto = make_model(nodes, [value("x")], outputs, constants, domains={DOMAIN: 1})
    return save(proto, folder, "user.onnx")


def other() -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 20)]
    return helper.make_function(DOMAIN, "NegPos", ["x"], ["n", "p"],
                                [op("Neg", "x", "n"), op("Abs", "x", "p")], opsets)  # fmt: skip
