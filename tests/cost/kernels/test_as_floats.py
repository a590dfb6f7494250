"""Quantized networks against the float networks that ONNX Runtime's own tools made them from."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import pytest
from onnxruntime import quantization as q

from figure_builders import kin_record
from hetsim.cost.kernels.as_floats import as_floats
from hetsim.cost.kernels.likeness import SAME, Likeness, traits_of
from hetsim.cost.kernels.networks import KernelTable, network_table
from hetsim.graph.graph import Graph
from hetsim.graph.loading import load_model, model_of
from hetsim.graph.model import Model
from hetsim.graph.zoo import models as zoo
from hetsim.hardware.kin import TRAITS
from kernel_graphs import chain
from sweeps import sweep


class Numbers(q.CalibrationDataReader):
    """One sample of each input."""

    def __init__(self, graph: Graph) -> None:
        random = np.random.default_rng(1)
        feed: dict[str, np.ndarray] = {}
        for name in graph.inputs:
            shape = graph.tensors[name].static_shape
            ids = graph.tensors[name].dtype == "int64"
            feed[name] = (
                random.integers(0, 2, shape) if ids else random.random(shape, dtype=np.float32)
            )
        self.feeds = iter([feed])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.feeds, None)


@cache
def quantized_model(name: str, form: str) -> Model:
    """A network of the zoo, quantized."""
    there = zoo.materialise(name)
    with TemporaryDirectory() as folder:
        # The tool writes beside what it reads, and several processes read the zoo.
        own = shutil.copytree(there.parent, Path(folder) / "floats")
        source, target = own / there.name, Path(folder) / "q.onnx"
        if form == "dynamic":
            q.quantize_dynamic(source, target)
        else:
            q.quantize_static(
                source,
                target,
                Numbers(load_model(f"zoo:{name}").graph),
                quant_format=q.QuantFormat.QOperator if form == "qoperator" else q.QuantFormat.QDQ,
                per_channel=form == "qdq per channel",
            )
        return model_of(onnx.load(target), name=name)


def quantized(name: str, form: str) -> Graph:
    """The graph of a network of the zoo, quantized."""
    return quantized_model(name, form).graph


def same(a: KernelTable, b: KernelTable) -> bool:
    """Whether the kernels of two tables are the same."""
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("elements", "stored", "counts")
    ) and (a.io_elements, a.io_stored) == (b.io_elements, b.io_stored)


@pytest.mark.parametrize(("name", "form"), [
    ("squeezenet", "qdq"), ("squeezenet", "qoperator"), ("bert_small", "dynamic"),
])  # fmt: skip
def test_kernels_are_those_of_the_floats_that_it_was_made_from(name: str, form: str) -> None:
    floats, integers = load_model(f"zoo:{name}").graph, quantized(name, form)
    assert not same(network_table(integers), network_table(floats))
    assert same(network_table(as_floats(integers)), network_table(floats))


@sweep("name, form", quick=[("squeezenet", "qdq"), ("resnet18", "qoperator")], full=[
    ("squeezenet", "qdq"), ("resnet18", "qdq per channel"), ("resnet18", "qoperator"),
    ("bert_small", "qdq"),
])  # fmt: skip
def test_a_kin_knows_a_quantized_network_again(name: str, form: str) -> None:
    # The order of the nodes says which of two convolutions a sum joins, and tools change it; what
    # ONNX Runtime folds of floats it leaves of integers.
    kin = kin_record([("anet", 1, 1, 0.0, [9.0] * len(TRAITS))])
    floats, integers = load_model(f"zoo:{name}").graph, quantized(name, form)
    place = traits_of(network_table(floats), 1, kin)
    found = traits_of(network_table(as_floats(integers)), 1, kin)
    assert np.linalg.norm(found - place) < SAME / 2
    known = Likeness.of(kin_record([("known", 1, 9, 0.3, place.tolist())]))
    assert known.of_table(network_table(as_floats(integers)), 1).same
    assert not known.of_table(network_table(integers), 1).same


def test_what_is_not_quantized_stays_the_very_graph() -> None:
    graph = chain("Relu", "Sigmoid")
    assert as_floats(graph) is graph
