"""Small models, and workloads and deployments of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx

import hetsim
from hetsim.workload.arrivals import Poisson, Replay
from hetsim.workload.deployment import Served
from onnx_builders import make_model, op, value


def model_at(folder: Path, batch: int | str, width: int = 512) -> str:
    rng = np.random.default_rng(0)
    weights = {f"w{k}": rng.standard_normal((width, width)).astype(np.float32) for k in (1, 2)}
    made = make_model(
        [op("MatMul", "x w1", "a"), op("Relu", "a", "b"), op("MatMul", "b w2", "y")],
        [value("x", (batch, width))],
        [value("y", (batch, width))],
        weights,
    )
    path = folder / f"dense_{batch}_{width}.onnx"
    onnx.save(made, path)
    return str(path)


def alone_s(model: str, platform: hetsim.Platform) -> float:
    problem = hetsim.Problem.of(hetsim.load_model(model), platform)
    return hetsim.simulate(hetsim.plan(problem, "single:cpu")).latency_s


def deployed(model: str, **changes: object) -> hetsim.Deployment:
    given: dict[str, object] = {"strategy": "single:cpu", **changes}
    return hetsim.Deployment((Served(model, **given),))  # type: ignore[arg-type]


def poisson(model: str, rate: float, requests: int, **changes: object) -> hetsim.Workload:
    slos = changes.pop("slos", ())
    stream = hetsim.Stream("all", model, Poisson(rate), slos=slos)  # type: ignore[arg-type]
    return hetsim.Workload((stream,), requests=requests, **changes)  # type: ignore[arg-type]


def replayed(
    folder: Path, model: str, times: Iterable[float], *slos: hetsim.Slo, name: str = "trace"
) -> hetsim.Workload:
    """Requests at the times of a trace that is written."""
    path = folder / f"{name}.csv"
    path.write_text("time\n" + "".join(f"{float(one)!r}\n" for one in times))
    stream = hetsim.Stream("all", model, Replay(str(path), column="time"), slos=slos)
    return hetsim.Workload((stream,))
