"""OpenVINO's HETERO plugin on a DAG and a mask, and our reading of its rule on the same model."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from hetsim.graph.dag import Dag
from hetsim.partitioning.flow import partition
from hetsim.problem.groups import owners
from hetsim.problem.problem import Problem

DEVICES = ("ACCELERATOR", "HOST")


def split(dag: Dag, device_of: Sequence[int]) -> tuple[float, list[int]]:
    """CPU seconds and the raw subgraph id of every node.

    The two devices are names that no library stands behind: HETERO splits the model by the
    affinities, then loading the first device fails. So the seconds are those of the split, not
    of a device's compiler. The ids are read from the picture that the plugin draws of its split
    in a second, untimed call.
    """
    core = import_module("openvino").Core()
    for name in DEVICES:
        core.register_plugin("openvino_no_plugin", name)
    model = _model(dag, device_of)

    def fail_to_compile() -> None:
        with contextlib.suppress(RuntimeError):
            core.compile_model(model, "HETERO:" + ",".join(DEVICES))

    gc.collect()
    began = time.process_time()
    fail_to_compile()
    seconds = time.process_time() - began
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["OPENVINO_HETERO_VISUALIZE"] = "1"
        fail_to_compile()
        del os.environ["OPENVINO_HETERO_VISUALIZE"]
        picture = Path("hetero_subgraphs_benchmark.dot").read_text()
    drawn = dict(re.findall(r'label="op(\d+)\\n[^"]*?subgraph=(\d+)', picture))
    return seconds, [int(drawn[str(v)]) for v in range(dag.n)]


def _model(dag: Dag, device_of: Sequence[int]) -> Any:
    """An ov.Model of Concats; each node that reads nothing gets a parameter of its own."""
    opset = import_module("openvino.opset13")
    parameters: list[Any] = []
    made: list[Any] = []
    for v, preds in enumerate(dag.preds):
        sources = [made[u] for u in preds]
        if not sources:
            parameters.append(_placed(opset.parameter([-1]), device_of[v]))
            sources = parameters[-1:]
        made.append(_placed(opset.concat(sources, 0), device_of[v]))
        made[v].set_friendly_name(f"op{v}")
    ends = [v for v in range(dag.n) if not dag.succs[v]]
    results = [_placed(opset.result(made[v]), device_of[v]) for v in ends]
    return import_module("openvino").Model(results, parameters, "benchmark")


def _placed(node: Any, device: int) -> Any:
    node.get_rt_info()["affinity"] = DEVICES[device]
    return node


def groups_by_its_rule(dag: Dag, device_of: Sequence[int]) -> list[int]:
    """The groups that ``boundary`` makes of the same model, its parameters and results included."""
    inputs = ((-1, 1, (v,)) for v in range(dag.n) if not dag.preds[v])
    tensors = (*inputs, *((v, 1, dag.succs[v]) for v in range(dag.n)))
    problem = Problem.from_arrays(np.ones((dag.n, len(DEVICES))), tensors=tensors)
    return owners(dag.n, partition(problem, "boundary", assignment=device_of).groups)
