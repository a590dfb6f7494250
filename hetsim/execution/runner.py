"""The verb ``run``: a plan for real, its outputs held against those of the whole model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from hetsim.errors import UsageError, nearest
from hetsim.execution.equality import Deviation, deviations, judged
from hetsim.execution.program import Outcome, Program, assemble, roundings_of, tolerance_of
from hetsim.problem import GRAPH_INPUT
from hetsim.timeline import Timeline

if TYPE_CHECKING:
    from hetsim.device.precision import Rounding
    from hetsim.graph.model import Model
    from hetsim.plans import Plan

EXECUTORS = ("ray", "threads")
PRECISIONS = ("graph", "device")


@dataclass(frozen=True)
class Run:
    """What a plan computed.

    Attributes
    ----------
    outputs : dict of str to array
        In the model's order; a list for a sequence, None for an empty optional.
    timeline : Timeline
        What the plan costs on the virtual clock.
    wall_s : float
        Real seconds of the execution, devices ready before it.
    reference : dict of str to array, or None
        Outputs of the whole canonical model in one session, its values rounded where the
        run's were; None where not asked for.
    bitwise_equal : bool or None
        Whether the outputs equal the reference to the last bit.
    mismatches : tuple of str
        The outputs that are further off than `tolerance` allows, each with in what it differs.
    tolerance : float
        How far outputs may be off, over their largest magnitude, because a device has kernels
        of its own or spreads one over threads; 0 elsewhere: to the last bit.
    executor : str
        ``ray`` or ``threads``.
    compile_s : float
        Real seconds until every device was ready: actors or threads started, sessions open.
    steps : int
        Calls to devices: subgraphs that follow one another on a device share one.
    precision : str
        ``graph``: in the types of the graph; ``device``: rounded as the devices compute.
    deviations : tuple of Deviation
        With precision ``device``: how far each float output is from the graph's own types.
    """

    outputs: dict[str, NDArray[Any]] = field(repr=False)
    timeline: Timeline = field(repr=False)
    wall_s: float
    reference: dict[str, NDArray[Any]] | None = field(repr=False)
    bitwise_equal: bool | None
    mismatches: tuple[str, ...]
    executor: str
    compile_s: float = 0.0
    steps: int = 0
    precision: str = "graph"
    deviations: tuple[Deviation, ...] = ()
    tolerance: float = 0.0


def run(
    plan: Plan,
    inputs: Mapping[str, NDArray[Any]] | None = None,
    *,
    executor: Literal["ray", "threads"] = "ray",
    address: str | None = None,
    timeout_s: float = 600.0,
    verify: bool = True,
    seed: int = 0,
    precision: Literal["graph", "device"] = "graph",
) -> Run:
    """Run `plan` with ONNX Runtime, one worker a device, and return what it computed.

    Parameters
    ----------
    plan : Plan
        Of a problem that was built from a model.
    inputs : mapping of str to array, optional
        Every input of the model; absent: ``random_inputs`` of `seed`.
    executor : "ray" or "threads"
        Ray actors, or threads of this process.
    address : str, optional
        ``host:port`` of a Ray to join, or ``auto``. Absent: the Ray that this process is
        connected to, or else a private one that is stopped afterwards.
    timeout_s : float
        How long devices may take to compile, and again to run.
    verify : bool
        Whether to run the whole canonical model too, and compare.
    seed : int
        Of the random inputs.
    precision : "graph" or "device"
        Whether devices compute in the types of the graph, or round every value to the type
        that they compute in (``execution_dtype``), which shows what that does to the outputs.

    Raises
    ------
    UsageError
        Where the executor is unknown, the plan has no model, or options do not go together.
    PlanError
        Where the plan is not valid.
    RequestError
        Where the inputs do not fit the model.
    ExecutionError
        Where a device fails or does not answer in time, or Ray does not start.
    """
    check_how(executor, address, timeout_s)
    if precision not in PRECISIONS:
        raise UsageError(
            f"there is no precision '{precision}'", hint=nearest(str(precision), PRECISIONS)
        )
    model = plan.problem.model
    if model is None:
        raise UsageError(
            f"the plan '{plan.strategy}' is for a problem without a model",
            hint="build the problem with Problem.of(model, platform)",
        )
    from hetsim.execution.weights import staged
    from hetsim.simulation.clock import simulate

    plan.validate()
    given = given_inputs(model, inputs, seed)
    timeline = simulate(plan)
    roundings = roundings_of(plan) if precision == "device" else None
    with staged(model) as staged_model:
        program = assemble(plan, staged_model, roundings)
        crossing = _crossing_bytes(plan)
        outcome = execute(program, given, executor, address, timeout_s, crossing)
        outputs = _in_order(staged_model, given, outcome)
        reference = run_whole(staged_model, given, roundings) if verify else None
        exact = run_whole(staged_model, given) if verify and roundings is not None else None
    tolerance = tolerance_of(plan)
    verdict = None if reference is None else judged(outputs, reference, tolerance)
    return Run(
        outputs=outputs,
        timeline=timeline,
        wall_s=outcome.wall_s,
        reference=reference,
        bitwise_equal=None if verdict is None else verdict.bitwise_equal,
        mismatches=() if verdict is None else verdict.mismatches,
        tolerance=tolerance,
        executor=executor,
        compile_s=outcome.compile_s,
        steps=len(program.steps),
        precision=precision,
        deviations=() if exact is None else deviations(outputs, exact),
    )


def check_how(executor: str, address: str | None, timeout_s: float) -> None:
    """Raise UsageError where the options of a run do not exist or do not go together."""
    if executor not in EXECUTORS:
        raise UsageError(
            f"there is no executor '{executor}'", hint=nearest(str(executor), EXECUTORS)
        )
    if address is not None and executor != "ray":
        raise UsageError("an address needs the executor 'ray'")
    if not timeout_s > 0 or math.isnan(timeout_s):
        raise UsageError(f"the timeout is {timeout_s:g} s", hint="give a positive number")


def given_inputs(
    model: Model, inputs: Mapping[str, NDArray[Any]] | None, seed: int
) -> dict[str, Any]:
    """Return the inputs of a run: those that are given, checked, or random ones of `seed`."""
    from hetsim.graph.samples import check_inputs, random_inputs

    if inputs is None:
        return dict(random_inputs(model, seed))
    check_inputs(model, inputs)
    return {name: _plain(inputs[name]) for name in model.graph.inputs}


def _plain(value: Any) -> Any:
    """Strings as objects, as ONNX Runtime gives them back; all else as it is."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "UT":
        return value.astype(object)
    return value


def execute(
    program: Program,
    inputs: Mapping[str, Any],
    executor: str,
    address: str | None,
    timeout_s: float,
    crossing_bytes: int,
) -> Outcome:
    """Run a program on threads, or on Ray actors.

    A private object store of Ray has room for the values that cross devices, which are
    `crossing_bytes`, twice, and to spare.
    """
    if executor == "threads":
        from hetsim.execution.threads import run_on_threads

        return run_on_threads(program, inputs, timeout_s)
    from hetsim.execution.ray_session import STORE_BYTES, ray_session

    with ray_session(address, store_bytes=STORE_BYTES + 2 * crossing_bytes) as session:
        from hetsim.execution.ray_executor import run_on_ray

        return run_on_ray(program, inputs, timeout_s, session)


def _crossing_bytes(plan: Plan) -> int:
    """Bytes of the values that cross devices or leave the model, each once."""
    crossing = 0
    for value in plan.problem.values:
        ends = (value.producer, *value.consumers)
        devices = {plan.assignment[node] if node != GRAPH_INPUT else None for node in ends}
        if value.is_output or len(devices) > 1:
            crossing += value.nbytes
    return crossing


def _in_order(model: Model, inputs: Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    """The model's outputs; inputs and constants among them belong to no subgraph."""
    names = [name for name in model.graph.outputs if name in model.graph.constants]
    known = {**inputs, **_constants(model, names), **outcome.outputs}
    return {name: known[name] for name in model.graph.outputs}


def _constants(model: Model, names: Sequence[str]) -> dict[str, Any]:
    """Stored values as arrays, by ONNX Runtime too: it reads every type and external data."""
    if not names:
        return {}
    import onnx

    from hetsim.device.kernels import CompiledSubgraph, KernelSettings

    whole = model.proto
    proto = onnx.ModelProto(ir_version=whole.ir_version, opset_import=whole.opset_import)
    proto.graph.name = model.name
    proto.graph.initializer.extend(t for t in whole.graph.initializer if t.name in names)
    proto.graph.sparse_initializer.extend(
        t for t in whole.graph.sparse_initializer if t.values.name in names
    )
    proto.graph.output.extend(value for value in whole.graph.output if value.name in names)
    settings = KernelSettings(libraries=model.libraries)
    return CompiledSubgraph(proto.SerializeToString(), _folder(model), names, settings).run({})


def run_whole(
    model: Model, inputs: Mapping[str, Any], roundings: Sequence[Rounding] | None = None
) -> dict[str, Any]:
    """Return the outputs of the whole model in one session, on the settings of the parts."""
    from hetsim.device.kernels import CompiledSubgraph, KernelSettings
    from hetsim.device.precision import rounded

    proto = model.proto
    if roundings is not None:
        proto = rounded(proto, roundings, model.graph.dtypes)
    settings = KernelSettings(libraries=model.libraries)
    compiled = CompiledSubgraph(
        proto.SerializeToString(), _folder(model), model.graph.outputs, settings
    )
    return compiled.run(inputs)


def _folder(model: Model) -> str | None:
    return str(model.weights_dir) if model.weights_dir is not None else None
