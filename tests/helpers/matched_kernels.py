"""Small models, and which of their nodes the kernels of a profile are matched to, by names."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from hetsim.cost.profiles.formats import TimedKernel
from hetsim.cost.profiles.matching import match
from hetsim.cost.profiles.names import Names
from hetsim.graph.loading import model_of
from hetsim.graph.model import Model
from hetsim.graph.work import graph_work
from onnx_builders import make_model, op, value

SHAPE = (1, 4, 3, 3)


def model(*nodes: onnx.NodeProto, outputs: str = "y") -> Model:
    """A model of images; w is a weight, s a number."""
    stored = {"w": np.ones((4, 4, 1, 1), np.float32), "s": np.array(2.0, np.float32)}
    read = {name for node in nodes for name in node.input}
    used = {name: array for name, array in stored.items() if name in read}
    wanted = [value(name, None) for name in outputs.split()]
    return model_of(make_model(nodes, [value("x", SHAPE)], wanted, used), canonical="none")


def conv(reads: str, writes: str, name: str) -> onnx.NodeProto:
    return op("Conv", f"{reads} w", writes, name)


@dataclass
class Found:
    """What was matched, by names: nodes of each kernel, kernels by place, nodes inside."""

    nodes: list[set[str]]
    placed: set[int]
    inside: set[str]
    folded: set[int]


def matched(
    of: Model, *kernels: str | tuple[Any, ...], own: str = "", ordered: bool = True
) -> Found:
    """Match kernels, each a name and perhaps an op type and more; `own`: 1 or 0 each."""
    told = []
    for one in kernels:
        name, kind, *more = (one, "") if isinstance(one, str) else one
        made = TimedKernel(name, 1.0, 1.0, 1.0, kind)
        told.append(replace(made, **more[0]) if more else made)
    graph = of.graph
    found = match(
        graph,
        [work.op_class for work in graph_work(graph)],
        Names.of(of),
        told,
        [flag == "1" for flag in own or "1" * len(told)],
        ordered=ordered,
    )
    assert all(list(nodes) == sorted(set(nodes)) for nodes in found.nodes)
    return Found(
        [{graph.nodes[v].name for v in nodes} for nodes in found.nodes],
        found.placed,
        {graph.nodes[v].name for v in found.inside},
        found.folded,
    )
