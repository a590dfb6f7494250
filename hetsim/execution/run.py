"""Verb ``run``: real execution of a plan, its outputs compared with the whole model's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hetsim.core import checks
from hetsim.core.result import Result
from hetsim.device.kernels.onnx_runtime import CompiledSubgraph, KernelSettings
from hetsim.device.kernels.precision import Rounding, rounded
from hetsim.execution.dispatch.device_states import Recovery
from hetsim.execution.program import EXECUTORS as EXECUTORS
from hetsim.execution.program import (
    check_how,
    given_inputs,
    model_of,
    roundings_of,
    tolerance_of,
    weights_folder,
)
from hetsim.execution.session import Session
from hetsim.graph.extract import NO_NODE, runnable_dtypes, runnable_whole
from hetsim.graph.inputs.arrays import Inputs
from hetsim.graph.model import Model
from hetsim.problem.plan import Plan
from hetsim.problem.timeline import Event, Timeline
from hetsim.simulation.simulate import simulate
from hetsim.workload.failure import Failure, check_failures


@dataclass(frozen=True, slots=True)
class Deviation:
    """Deviation of an output from its reference.

    `max_abs` is the largest difference over elements that are finite in both, `max_rel` that over
    the largest magnitude of the reference, `lost` the number of elements finite only in the
    reference.
    """

    output: str
    max_abs: float
    max_rel: float
    lost: int


@dataclass(frozen=True, slots=True)
class OutputsVerdict:
    """Comparison of outputs with the reference."""

    bitwise_equal: bool
    mismatches: tuple[str, ...]


def compared_outputs(
    found: Mapping[str, Any], reference: Mapping[str, Any], tolerance: float
) -> OutputsVerdict:
    """Return the comparison of `found` with `reference`.

    `tolerance`: maximum error of a float array's element, relative to the largest magnitude of its
    reference; 0 requires identical bits.
    """
    told = differences(found, reference)
    if not told or not tolerance:
        return OutputsVerdict(not told, told)
    off: dict[str, float] = {}
    for deviation in deviations(found, {k: v for k, v in reference.items() if k in found}):
        off[deviation.output] = np.inf if deviation.lost else deviation.max_rel
    within = {name for name, largest in off.items() if largest <= tolerance}
    beyond = {name: value for name, value in reference.items() if name not in within}
    rest = {name: value for name, value in found.items() if name not in within}
    return OutputsVerdict(False, differences(rest, beyond))


def all_judged(
    answers: Sequence[Mapping[str, Any]],
    reference: Mapping[str, Any] | None,
    tolerance: float,
    each: str = "",
) -> tuple[bool | None, tuple[str, ...]]:
    """Return whether all answers have the reference's bits, and differences by number of `each`.

    None without a reference.
    """
    if reference is None:
        return None, ()
    verdicts = [compared_outputs(answer, reference, tolerance) for answer in answers]
    return all(verdict.bitwise_equal for verdict in verdicts), tuple(
        f"{each} {number}: {mismatch}" if each else mismatch
        for number, verdict in enumerate(verdicts)
        for mismatch in verdict.mismatches
    )


def deviations(found: Mapping[str, Any], reference: Mapping[str, Any]) -> tuple[Deviation, ...]:
    """Return the deviation of each float array of `found` from `reference`, in its order."""
    told: list[Deviation] = []
    for name, wanted in reference.items():
        have = found[name]
        if not isinstance(wanted, np.ndarray) or wanted.dtype.kind not in "fV":
            continue
        if not isinstance(have, np.ndarray) or have.shape != wanted.shape:
            told.append(Deviation(name, np.inf, np.inf, wanted.size))
            continue
        a, b = have.astype(np.float64), wanted.astype(np.float64)
        both = np.isfinite(a) & np.isfinite(b)
        largest = float(np.abs(a[both] - b[both]).max(initial=0.0))
        scale = float(np.abs(b[both]).max(initial=0.0))
        lost = int((np.isfinite(b) & ~np.isfinite(a)).sum())
        told.append(Deviation(name, largest, largest / scale if scale else largest, lost))
    return tuple(told)


def differences(found: Mapping[str, Any], reference: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a description of each differing value, by name in the order of `reference`.

    Arrays are equal if dtype, shape and bytes are: NaN equals the same NaN, 0.0 is not -0.0.
    """
    told: list[str] = []
    for name, wanted in reference.items():
        what = difference(found[name], wanted) if name in found else "it is missing"
        if what is not None:
            told.append(f"{name} ({what})")
    told.extend(f"{name} (unexpected)" for name in found if name not in reference)
    return tuple(told)


def difference(found: Any, wanted: Any) -> str | None:
    """Return a description of how `found` differs from `wanted`, or None if it does not."""
    if isinstance(wanted, np.ndarray):
        if not isinstance(found, np.ndarray):
            return f"a {type(found).__name__}, not an array"
        return _array_difference(found, wanted)
    if type(found) is not type(wanted):
        return f"a {type(found).__name__}, not a {type(wanted).__name__}"
    if isinstance(wanted, list | tuple):
        if len(found) != len(wanted):
            return f"{len(found)} entries, not {len(wanted)}"
        pairs = enumerate(zip(found, wanted, strict=True))
        return _first((f"entry {place}", difference(a, b)) for place, (a, b) in pairs)
    if isinstance(wanted, dict):
        if list(found) != list(wanted):
            return "other keys"
        return _first((f"key {key!r}", difference(found[key], wanted[key])) for key in wanted)
    if isinstance(wanted, float):
        return difference(np.float64(found).reshape(1), np.float64(wanted).reshape(1))
    return None if found == wanted else f"{found!r}, not {wanted!r}"


def _first(parts: Iterable[tuple[str, str | None]]) -> str | None:
    for where, what in parts:
        if what is not None:
            return f"{where}: {what}"
    return None


def _array_difference(found: NDArray[Any], wanted: NDArray[Any]) -> str | None:
    if found.dtype != wanted.dtype:
        return f"{found.dtype}, not {wanted.dtype}"
    if found.shape != wanted.shape:
        return f"shape {found.shape}, not {wanted.shape}"
    if found.dtype == object:
        different = sum(a != b for a, b in zip(found.flat, wanted.flat, strict=True))
        return f"{different} of {wanted.size} entries differ" if different else None
    a, b = (np.ascontiguousarray(x).reshape(-1) for x in (found, wanted))
    if a.tobytes() == b.tobytes():
        return None
    item = a.dtype.itemsize
    rows = (x.view(np.uint8).reshape(-1, item) for x in (a, b))
    different = int(np.any(np.not_equal(*rows), axis=1).sum())
    text = f"{different} of {a.size} elements differ"
    if a.dtype.kind == "b":
        return text
    kind = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        deviation = np.abs(a.astype(kind) - b.astype(kind))
    finite = deviation[np.isfinite(deviation)]
    largest = finite.max(initial=0.0)
    return f"{text}, by at most {largest:.3g}" if largest > 0 else text


@dataclass(frozen=True, slots=True)
class Plain:
    """Deviation of outputs from the whole model's with ONNX Runtime's default options.

    Attributes
    ----------
    bitwise_equal : bool
    deviations : tuple of Deviation
        Deviations of the float outputs.
    mismatches : tuple of str
        Outputs of other types that differ, each with its difference.
    """

    bitwise_equal: bool
    deviations: tuple[Deviation, ...]
    mismatches: tuple[str, ...]


@dataclass(frozen=True, repr=False)
class Run(Result):
    """Result of a run.

    Attributes
    ----------
    outputs : dict of str to array
        Outputs in the model's order; a list for a sequence, None for an empty optional.
    timeline : Timeline
        Timeline of the plan on the virtual clock.
    wall_s : float
        Real seconds of the execution on ready devices, to the end of all replicas.
    reference : dict of str to array, or None
        Outputs of the whole canonical model in one session, with the run's roundings; None if not
        requested.
    bitwise_equal : bool or None
        Whether the outputs equal the reference to the last bit.
    mismatches : tuple of str
        Outputs that deviate by more than `tolerance`, each with its difference.
    tolerance : float
        Allowed deviation of outputs, relative to their largest magnitude, for devices with other
        kernels or several threads; 0 otherwise: identical bits.
    executor : str
        ``ray`` or ``threads``.
    compile_s : float
        Real seconds until every device was ready: actors or threads started, sessions open.
    steps : int
        Calls to devices: consecutive subgraphs on a device share one.
    precision : str
        ``graph``: in the types of the graph; ``device``: rounded as the devices compute.
    deviations : tuple of Deviation
        With precision ``device``: deviation of each float output from the graph's own types.
    recoveries : tuple of Recovery
        Failures of devices that were recovered from.
    events : tuple of Event
        Work of devices and transfers of values, in real seconds since the request arrived;
        ``caller`` is the process that asked for the run. `timeline` has virtual ones.
    plain : Plain or None
        With `plain`: deviation of the outputs from ONNX Runtime's default options.
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
    recoveries: tuple[Recovery, ...] = ()
    events: tuple[Event, ...] = field(default=(), repr=False)
    plain: Plain | None = None


@checks.takes(
    plan=checks.instance("hetsim.problem.plan:Plan"),
    inputs=checks.either(checks.path, checks.mapping(checks.text)),
    executor=checks.text,
    address=checks.text,
    timeout_s=checks.real,
    verify=checks.flag,
    seed=checks.whole(0),
    precision=checks.text,
    failures=checks.sequence(checks.instance("hetsim.workload.failure:Failure")),
    plain=checks.flag,
)
def run(
    plan: Plan,
    inputs: Inputs | None = None,
    *,
    executor: Literal["ray", "threads"] = "ray",
    address: str | None = None,
    timeout_s: float = 600.0,
    verify: bool = True,
    seed: int = 0,
    precision: Literal["graph", "device"] = "graph",
    failures: Sequence[Failure] = (),
    plain: bool = False,
) -> Run:
    """Run `plan` with ONNX Runtime, one worker per device, and return the results.

    A plan of several replicas gets one request for each, all with the same inputs; the results are
    those of the first, and the outputs of all are checked.

    Parameters
    ----------
    plan : Plan
        Plan of a problem that was built from a model.
    inputs : mapping of str to array, or path of a ``.npz`` file, optional
        All inputs of the model; absent: ``random_inputs`` of `seed`.
    executor : "ray" or "threads"
        Ray actors, processes of this machine, or threads of this process.
    address : str, optional
        ``host:port`` of a Ray to join, or ``auto``. Absent: the Ray that this process is
        connected to, or else a private one that is stopped afterwards.
    timeout_s : float
        Maximum seconds for devices to compile, and again to run.
    verify : bool
        Whether to run the whole canonical model too, and compare.
    seed : int
        Seed of the random inputs.
    precision : "graph" or "device"
        Whether devices compute in the types of the graph, or round every value to their own type
        (``execution_dtype``), which shows its effect on the outputs.
    failures : sequence of Failure
        Failures to inject, in real seconds from the request's start; the timeline has the same
        failures at the same virtual times.
    plain : bool
        Whether to also compare with a session of ONNX Runtime's default options.

    Raises
    ------
    UsageError
        If the executor is unknown, the plan has no model, or options are incompatible.
    PlanError
        If the plan is not valid.
    RequestError
        If the inputs do not fit the model.
    TimedOut
        If a device does not answer in time.
    DeviceLost
        If a device dies on every start, or runs out of memory.
    ClusterError
        If Ray does not start or cannot be joined; NotOffered if it has no node for a device.
    Infeasible
        If no device can replace one that was lost.
    ExecutionError
        Base of these, except the last: if a kernel fails.
    """
    check_how(executor, address, timeout_s, precision)
    failing = check_failures(failures, plan.problem.devices)
    model = model_of(plan)
    plan.validate()
    given = given_inputs(model, inputs, seed)
    replicas = len(plan.replicas)
    each = plan.each_once
    timeline = simulate(each, replicas, failures=failing)
    with Session(
        each,
        executor,
        address=address,
        timeout_s=timeout_s,
        max_in_flight=replicas,
        precision=precision,
        trace=True,
    ) as session:
        model = session.model
        roundings = roundings_of(plan) if precision == "device" else None
        session.inject(failing)
        asked = [session.run_async(given) for _ in range(replicas)]
        answers = [request.result() for request in asked]
        outputs = answers[0]
        recoveries = session.recoveries
        events = session.events
        reference = run_whole(model, given, roundings) if verify else None
        exact = run_whole(model, given) if verify and roundings is not None else None
        default = run_whole(model, given, plain=True) if plain else None
    tolerance = tolerance_of(plan)
    named = "replica" if replicas > 1 else ""
    bitwise_equal, mismatches = all_judged(answers, reference, tolerance, named)
    wall_s = max(request.wall_s or 0.0 for request in asked)
    return Run(
        outputs=outputs,
        timeline=timeline,
        wall_s=wall_s,
        reference=reference,
        bitwise_equal=bitwise_equal,
        mismatches=mismatches,
        tolerance=tolerance,
        recoveries=recoveries,
        events=events,
        executor=executor,
        compile_s=session.compile_s,
        steps=session.steps,
        precision=precision,
        deviations=() if exact is None else deviations(outputs, exact),
        plain=None if default is None else _plain(outputs, default),
    )


def _plain(outputs: Mapping[str, Any], default: Mapping[str, Any]) -> Plain:
    off = deviations(outputs, default)
    floats = {deviation.output for deviation in off}
    others = {name: value for name, value in default.items() if name not in floats}
    return Plain(
        not differences(outputs, default),
        off,
        differences({name: outputs[name] for name in others}, others),
    )


def run_whole(
    model: Model,
    inputs: Mapping[str, Any],
    roundings: Sequence[Rounding] | None = None,
    *,
    plain: bool = False,
) -> dict[str, Any]:
    """Return the outputs of the whole model in one session; see ``whole_model``."""
    return whole_model(model, roundings, plain=plain).run(inputs)


def whole_model(
    model: Model, roundings: Sequence[Rounding] | None = None, *, plain: bool = False
) -> CompiledSubgraph:
    """Return the whole model in one session, with the settings of the parts.

    `roundings`: type of each node's arithmetic; absent: the types of the graph. `plain`: with ONNX
    Runtime's default settings.
    """
    proto, owners = runnable_whole(model)
    if roundings is not None:
        own = [{} if node == NO_NODE else roundings[node] for node in owners]
        proto = rounded(proto, own, runnable_dtypes(model))
    elif plain:
        proto = model.proto
    settings = KernelSettings(libraries=model.libraries, plain=plain)
    return CompiledSubgraph(
        proto.SerializeToString(), weights_folder(model), model.graph.outputs, settings
    )
