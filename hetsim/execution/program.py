"""Executable plan: subgraphs as ONNX, steps of devices, inputs and outputs."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from onnx import ModelProto

from hetsim.core import checks
from hetsim.device.kernels.onnx_runtime import DEFAULT, CompiledSubgraph, KernelSettings
from hetsim.device.kernels.precision import Rounding, check_rounding, rounded
from hetsim.device.registry import tolerance
from hetsim.errors import UsageError, nearest
from hetsim.execution.weights import Extent, extents_of
from hetsim.graph.extract import NO_NODE, runnable, runnable_dtypes, stored_alone
from hetsim.graph.inputs.arrays import Inputs, check_arrays, read_npz
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.model import Model
from hetsim.graph.reading.onnx_types import plain
from hetsim.graph.shapes.binding import without_frozen
from hetsim.hardware.spec import DeviceSpec
from hetsim.problem.plan import Plan


@dataclass(frozen=True, slots=True)
class ProgramSubgraph:
    """Subgraph in the view of a plan's steps."""

    device: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """Call of a device: consecutive subgraphs on it (`parts`, by index).

    It `receives` model inputs and values of other devices, `sends` values for others and model
    outputs, `keeps` values for later calls to this device, and `frees`, by part, values that the
    device no longer needs after it.
    """

    device: str
    parts: tuple[int, ...]
    receives: tuple[str, ...]
    sends: tuple[str, ...]
    keeps: tuple[str, ...]
    frees: tuple[tuple[str, ...], ...]


class Timing(NamedTuple):
    """Times at which a device ran a step, by the monotonic clock of its machine."""

    arrived_s: float
    parts: tuple[tuple[float, float], ...]

    @property
    def end_s(self) -> float:
        """End of the last subgraph."""
        return self.parts[-1][1] if self.parts else self.arrived_s


@dataclass(frozen=True, slots=True)
class ReplicaSteps:
    """Steps of one of a plan's replicas."""

    first: int
    count: int
    key: Hashable = 0


def steps_of(
    parts: Sequence[ProgramSubgraph], outputs: Sequence[str], *, fused: bool = True
) -> tuple[Step, ...]:
    """Return the calls that run `parts`, in an order in which none waits for a later one.

    A part joins the last call of its device if all its inputs are available before that call starts
    or are produced within it, and if it either directly follows that call's last part or nothing
    waits for that call. Devices that take their calls in this order cannot deadlock. Without
    `fused`, call i is part i, calls of one request may overlap, and devices keep its values until
    told to forget it. O(parts + values they read and write).
    """
    maker = {name: index for index, part in enumerate(parts) for name in part.outputs}
    calls = _fuse(parts, maker) if fused else [[index] for index in range(len(parts))]
    call_of = {index: call for call, members in enumerate(calls) for index in members}
    sent = {name for name in outputs if name in maker}
    last_reader: dict[tuple[str, str], int] = {}
    for index, part in enumerate(parts):
        for name in part.inputs:
            last_reader[part.device, name] = index
            if name in maker and parts[maker[name]].device != part.device:
                sent.add(name)
    steps: list[Step] = []
    for call, members in enumerate(calls):
        device = parts[members[0]].device
        received: dict[str, int] = {}
        made: list[str] = []
        for index in members:
            made.extend(parts[index].outputs)
            for name in parts[index].inputs:
                if name not in maker or parts[maker[name]].device != device:
                    received[name] = index
        sends = tuple(name for name in made if name in sent)
        readers = {name: last_reader.get((device, name)) for name in made}
        keeps = tuple(
            name
            for name, reader in readers.items()
            if not fused or (reader is not None and call_of[reader] != call)
        )
        frees: list[tuple[str, ...]] = []
        for index in members:
            ends = {**{name: last_reader[device, name] for name in parts[index].inputs}, **received}
            frees.append(
                tuple(
                    name
                    for name in parts[index].inputs
                    if fused and ends[name] == index and name not in sends
                )
            )
        steps.append(Step(device, tuple(members), tuple(received), sends, keeps, tuple(frees)))
    return tuple(steps)


def _fuse(parts: Sequence[ProgramSubgraph], maker: Mapping[str, int]) -> list[list[int]]:
    """Return part indices grouped into calls."""
    calls: list[list[int]] = []
    call_of: list[int] = []
    newest: dict[str, int] = {}
    awaited: set[int] = set()
    for index, part in enumerate(parts):
        sources = [call_of[maker[name]] for name in part.inputs if name in maker]
        call = newest.get(part.device)
        if (
            call is None
            or any(source > call for source in sources)
            or (call_of[-1] != call and call in awaited)
        ):
            call = newest[part.device] = len(calls)
            calls.append([])
        calls[call].append(index)
        call_of.append(call)
        awaited.update(source for source in sources if source != call)
    return calls


@dataclass(frozen=True, slots=True)
class Code:
    """Subgraph as sent to a device."""

    group: int
    about: str
    proto: bytes = field(repr=False)
    outputs: tuple[str, ...]
    spec: DeviceSpec | None = field(default=None, repr=False)
    settings: KernelSettings = DEFAULT


@dataclass(frozen=True, slots=True)
class Program:
    """Executable form of a plan, without the plan and the model.

    `code` and `extents` (pieces of weights files below `weights_dir`) are by device; `outputs` are
    the model outputs produced by a step. Steps of `replicas` follow one another; `deal` is the
    replica by request, repeated. Earlier versions stay loaded from `since` on, as their calls may
    arrive.
    """

    steps: tuple[Step, ...]
    code: Mapping[str, tuple[Code, ...]]
    weights_dir: str | None
    outputs: tuple[str, ...]
    replicas: tuple[ReplicaSteps, ...] = ()
    deal: tuple[int, ...] = (0,)
    since: int = 0

    def only(self, device: str) -> Program:
        """Return one device's part of it."""
        return replace(self, code={device: self.code[device]}, replicas=())

    def extents(self, device: str) -> tuple[Extent, ...]:
        """Return the pieces of weights files that a device's subgraphs map, ascending."""
        protos = (ModelProto.FromString(entry.proto) for entry in self.code.get(device, ()))
        return tuple(sorted({extent for proto in protos for extent in extents_of(proto)}))


def roundings_of(plan: Plan) -> tuple[Rounding, ...]:
    """Return, by node, the element types that its device in `plan` computes in another type."""
    platform = plan.problem.platform
    if platform is None:
        return ({},) * plan.problem.n
    by_device: list[Rounding] = []
    for name in plan.problem.devices:
        rounding = platform.devices[name].rounding
        check_rounding(rounding, f"device '{name}'")
        by_device.append(rounding)
    found = [tuple(by_device[device] for device in replica.assignment) for replica in plan.replicas]
    if any(other != found[0] for other in found):
        raise UsageError(
            f"the replicas of the plan '{plan.strategy}' round in different ways",
            hint="run one of them alone (plan.replicas), or use the graph's own types",
        )
    return found[0]


def tolerance_of(plan: Plan) -> float:
    """Return the tolerance of outputs of `plan`, relative to their largest magnitude."""
    platform = plan.problem.platform
    if platform is None:
        return 0.0
    return max((tolerance(platform.devices[name]) for name in plan.devices_used), default=0.0)


def assemble(
    plan: Plan,
    model: Model,
    roundings: Sequence[Rounding] | None = None,
    *,
    fused: bool = True,
) -> Program:
    """Return the program of `plan`, cut from `model`, which may be a staged copy of its own.

    `roundings`: those of ``roundings_of``; None: the types of the graph. Without `fused` every
    subgraph is a separate step.
    """
    # Imported here: device processes read the records above, and need no onnx.
    platform = plan.problem.platform
    specs = {} if platform is None else platform.devices
    settings = {
        name: KernelSettings(threads=spec.threads, libraries=model.libraries)
        for name, spec in specs.items()
    }
    default = KernelSettings(libraries=model.libraries)
    foreign = {name: spec for name, spec in specs.items() if spec.backend != "simulated"}
    parts: list[ProgramSubgraph] = []
    code: dict[str, list[Code]] = {device: [] for device in plan.devices_used}
    for index, group in enumerate(plan.groups):
        subgraph = runnable(model, group.nodes)
        proto = subgraph.proto
        if roundings is not None:
            around = [{} if node == NO_NODE else roundings[node] for node in subgraph.nodes]
            proto = rounded(proto, around, runnable_dtypes(model))
        parts.append(ProgramSubgraph(group.device, subgraph.inputs, subgraph.outputs))
        names = [model.graph.nodes[node].name for node in group.nodes]
        code[group.device].append(
            Code(
                index,
                _about(index, names),
                proto.SerializeToString(),
                subgraph.outputs,
                foreign.get(group.device),
                settings.get(group.device, default),
            )
        )
    steps: list[Step] = []
    replicas: list[ReplicaSteps] = []
    for first, replica in zip(plan.offsets, plan.replicas, strict=True):
        own = parts[first : first + len(replica.groups)]
        made_by = steps_of(own, model.graph.outputs, fused=fused)
        replicas.append(ReplicaSteps(len(steps), len(made_by), replica.groups))
        steps += [
            replace(step, parts=tuple(first + part for part in step.parts)) for step in made_by
        ]
    made = {name for part in parts for name in part.outputs}
    given = {*model.graph.inputs, *model.graph.constants}
    unmade = [name for name in model.graph.outputs if name not in made and name not in given]
    if unmade:
        # A request would wait for it forever.
        raise AssertionError(f"no subgraph computes output '{unmade[0]}' of {model.source}")
    return Program(
        steps=tuple(steps),
        code={device: tuple(entries) for device, entries in code.items()},
        weights_dir=weights_folder(model),
        outputs=tuple(name for name in model.graph.outputs if name in made),
        replicas=tuple(replicas),
        deal=plan.period,
    )


def _about(index: int, names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:3])
    if len(names) > 3:
        shown += f" and {len(names) - 3} more"
    return f"subgraph g{index} ({shown})"


EXECUTORS = ("ray", "threads")
PRECISIONS = ("graph", "device")


def check_how(
    executor: str, address: str | None, timeout_s: float, precision: str = "graph"
) -> None:
    """Raise UsageError if the options of a run are unknown or incompatible."""
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
        raise UsageError(f"{what} is {seconds:g} s", hint="use a positive number of seconds")


def model_of(plan: Plan) -> Model:
    """Return the model of a plan. Raises UsageError if it has none."""
    if plan.problem.model is None:
        raise UsageError(
            f"the plan '{plan.strategy}' is for a problem without a model",
            hint="build the problem with Problem.of(model, platform)",
        )
    return plan.problem.model


def given_inputs(model: Model, inputs: Inputs | None, seed: int) -> dict[str, Any]:
    """Return the inputs of a run: checked given ones, or random ones of `seed`."""
    checks.whole(0)(seed, "seed")
    if inputs is None:
        return dict(random_inputs(model, seed))
    if isinstance(inputs, str | os.PathLike):
        stated = {name: model.graph.tensors[name] for name in model.graph.inputs}
        inputs = read_npz(Path(inputs), {**dict.fromkeys(model.frozen), **stated})
    checks.mapping(checks.text)(inputs, "inputs")
    inputs = without_frozen(inputs, model.frozen, model.source)
    check_arrays(model.graph, inputs, model.source)
    return {name: plain(inputs[name]) for name in model.graph.inputs}


def constants_among_outputs(model: Model) -> dict[str, Any]:
    """Return the outputs of `model` that are stored values, and belong to no subgraph."""
    names = [name for name in model.graph.outputs if name in model.graph.constants]
    if not names:
        return {}
    content = stored_alone(model, names).SerializeToString()
    settings = KernelSettings(libraries=model.libraries)
    return CompiledSubgraph(content, weights_folder(model), names, settings).run({})


def weights_folder(model: Model) -> str | None:
    """Return the folder of a model's external weights, if it has any."""
    return str(model.weights_dir) if model.weights_dir is not None else None
