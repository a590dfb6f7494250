"""Profiles as runtimes write them, by hand, and a real one of ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort

from onnx_builders import make_model, op, value

Row = dict[str, Any]


def unit_model(*, batch: int = 1) -> onnx.ModelProto:
    """Two convolutions with an activation each, a sum, and a product; every node has a name."""
    import numpy as np

    weight = np.full((4, 4, 3, 3), 0.1, np.float32)
    nodes = [
        op("Conv", "x w", "c1", "conv1", pads=[1, 1, 1, 1]),
        op("Relu", "c1", "r1", "relu1"),
        op("Conv", "r1 w", "c2", "conv2", pads=[1, 1, 1, 1]),
        op("Relu", "c2", "r2", "relu2"),
        op("Add", "r2 r1", "s", "add"),
        op("GlobalAveragePool", "s", "g", "pool"),
        op("Flatten", "g", "f", "flat"),
        op("MatMul", "f v", "y", "head"),
    ]
    return make_model(
        nodes,
        [value("x", (batch, 4, 8, 8))],
        [value("y", (batch, 5))],
        {"w": weight, "v": np.ones((4, 5), np.float32)},
    )


def ort_event(
    name: str, us: float, at: float, op_name: str = "", provider: str = "CPUExecutionProvider",
    **args: Any,
) -> Row:  # fmt: skip
    """A kernel of ONNX Runtime that took `us` microseconds from `at` on."""
    told = {"op_name": op_name, "provider": provider, **args}
    return {
        "cat": "Node", "pid": 7, "tid": 7, "dur": us, "ts": at, "ph": "X",
        "name": f"{name}_kernel_time", "args": told,
    }  # fmt: skip


def ort_run(at: float, dur: float) -> Row:
    """A whole run of ONNX Runtime."""
    return {
        "cat": "Session", "pid": 7, "tid": 7, "dur": dur, "ts": at, "ph": "X",
        "name": "model_run", "args": {},
    }  # fmt: skip


def ort_profile(kernels: Sequence[tuple[str, float, str]], runs: int = 1) -> list[Row]:
    """A profile of `runs` equal runs of (name, microseconds, op type) with gaps of 1 us."""
    rows: list[Row] = []
    at = 100.0
    for _ in range(runs):
        begin = at
        for name, us, op_name in kernels:
            rows.append(ort_event(name, us, at, op_name))
            at += us + 1
        rows.append(ort_run(begin, at - begin))
        at += 50
    return rows


def trt_profile(layers: Mapping[str, float], count: int = 100) -> list[Row]:
    """What ``trtexec --exportProfile`` writes of layers, in milliseconds."""
    return [
        {"count": count},
        *(
            {
                "name": name, "timeMs": ms * count, "averageMs": ms, "medianMs": ms,
                "percentage": 1.0,
            }
            for name, ms in layers.items()
        ),
    ]  # fmt: skip


def openvino_table(requests: Sequence[Sequence[tuple[str, str, str, float]]]) -> str:
    """The CSV of ``detailed_counters``: (name, status, type, milliseconds) by request."""
    lines: list[str] = []
    for layers in requests:
        lines.append("layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)")
        lines += [
            f"{name};{status};{kind};jit_avx512_FP32;{ms:.3f};{ms:.3f}"
            for name, status, kind, ms in layers
        ]
        lines += [f"Total;;;;{sum(ms for *_, ms in layers):.3f};0", ""]
    return "\n".join(lines) + "\n"


def ai_hub_profile(layers: Sequence[Row], inference_us: float) -> Row:
    """What AI Hub gives of layers."""
    return {
        "execution_summary": {
            "estimated_inference_time": inference_us,
            "all_inference_times": [inference_us] * 3,
        },
        "execution_detail": list(layers),
    }


def written(folder: Path, content: Any, name: str = "profile.json") -> Path:
    """Write a profile and return its path; what is no text as JSON."""
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def real_profile(
    model: Path, feeds: Mapping[str, Any], folder: Path, *, runs: int, optimised: bool = True
) -> Path:
    """Run a model in ONNX Runtime with its profiler on, and return the file."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "ort")
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    for _ in range(runs):
        session.run(None, dict(feeds))
    return Path(session.end_profiling())
