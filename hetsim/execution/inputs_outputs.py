"""What goes into a run and comes out of it, by name; and how a run may be asked for."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetsim.core import checks
from hetsim.errors import UsageError, nearest

if TYPE_CHECKING:
    from hetsim.graph.inputs.arrays import Inputs
    from hetsim.graph.model import Model
    from hetsim.problem.plan import Plan

EXECUTORS = ("ray", "threads")
PRECISIONS = ("graph", "device")


def check_how(
    executor: str, address: str | None, timeout_s: float, precision: str = "graph"
) -> None:
    """Raise UsageError where the options of a run do not exist or do not go together."""
    if executor not in EXECUTORS:
        raise UsageError(f"there is no executor '{executor}'", hint="use 'ray' or 'threads'")
    if address is not None and executor != "ray":
        raise UsageError("an address needs the executor 'ray'")
    check_wait("timeout_s", timeout_s)
    if precision not in PRECISIONS:
        raise UsageError(
            f"there is no precision '{precision}'", hint=nearest(str(precision), PRECISIONS)
        )


def check_wait(what: str, seconds: float) -> None:
    """Raise UsageError for a time that no thread can wait for."""
    checks.real(seconds, what)
    if not 0 < seconds <= threading.TIMEOUT_MAX:
        raise UsageError(f"{what} is {seconds:g} s", hint="give a positive number of seconds")


def model_of(plan: Plan) -> Model:
    """Return the model that a plan is of. Raises UsageError where there is none."""
    if plan.problem.model is None:
        raise UsageError(
            f"the plan '{plan.strategy}' is for a problem without a model",
            hint="build the problem with Problem.of(model, platform)",
        )
    return plan.problem.model


def given_inputs(model: Model, inputs: Inputs | None, seed: int) -> dict[str, Any]:
    """Return the inputs of a run: those that are given, checked, or random ones of `seed`."""
    from hetsim.graph.inputs.arrays import check_inputs, read_npz
    from hetsim.graph.inputs.samples import random_inputs
    from hetsim.graph.reading.onnx_types import plain
    from hetsim.graph.shapes.binding import without_frozen

    checks.whole(0)(seed, "seed")
    if inputs is None:
        return dict(random_inputs(model, seed))
    if isinstance(inputs, str | os.PathLike):
        stated = {name: model.graph.tensors[name] for name in model.graph.inputs}
        inputs = read_npz(Path(inputs), {**dict.fromkeys(model.frozen), **stated})
    checks.mapping(checks.text)(inputs, "inputs")
    inputs = without_frozen(inputs, model.frozen, model.source)
    check_inputs(model, inputs)
    return {name: plain(inputs[name]) for name in model.graph.inputs}


def constants_among_outputs(model: Model) -> dict[str, Any]:
    """Return the outputs of `model` that are stored values: they belong to no subgraph."""
    names = [name for name in model.graph.outputs if name in model.graph.constants]
    if not names:
        return {}
    from hetsim.device.kernels.onnx_runtime import CompiledSubgraph, KernelSettings
    from hetsim.graph.extract import stored_alone

    content = stored_alone(model, names).SerializeToString()
    settings = KernelSettings(libraries=model.libraries)
    return CompiledSubgraph(content, weights_folder(model), names, settings).run({})


def weights_folder(model: Model) -> str | None:
    """Return the folder of a model's external weights, if it has any."""
    return str(model.weights_dir) if model.weights_dir is not None else None
