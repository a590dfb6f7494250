"""A plan made ready to run: its subgraphs as ONNX, and the steps that devices take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hetsim.device.kernels.onnx_runtime import DEFAULT, KernelSettings
from hetsim.errors import UsageError
from hetsim.execution.devices.plan_steps import Part, Replica, Step, steps_of

if TYPE_CHECKING:
    from hetsim.device.kernels.precision import Rounding
    from hetsim.execution.devices.weights import Extent
    from hetsim.graph.model import Model
    from hetsim.hardware.spec import DeviceSpec
    from hetsim.problem.plan import Plan


@dataclass(frozen=True, slots=True)
class Code:
    """One subgraph as a device gets it."""

    group: int
    about: str
    proto: bytes = field(repr=False)
    outputs: tuple[str, ...]
    spec: DeviceSpec | None = field(default=None, repr=False)
    settings: KernelSettings = DEFAULT
    hold_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Program:
    """What an executor needs; free of the plan and the model.

    Attributes
    ----------
    steps : tuple of Step
        In an order in which none waits for a later one.
    code : mapping of str to tuple of Code
        By device that runs anything, in the platform's order.
    extents : mapping of str to tuple of Extent
        By device: the pieces of weights files that its subgraphs map.
    weights_dir : str or None
        Folder that the pieces' locations are relative to.
    outputs : tuple of str
        Outputs of the model that some step makes.
    replicas : tuple of Replica
        Whose steps follow one another; empty: all steps are of one.
    deal : tuple of int
        Replica by request, over and over.
    beside : bool
        Whether all versions before it stay loaded; else the one before it alone does, for as long
        as calls of it may come.
    """

    steps: tuple[Step, ...]
    code: Mapping[str, tuple[Code, ...]]
    extents: Mapping[str, tuple[Extent, ...]]
    weights_dir: str | None
    outputs: tuple[str, ...]
    replicas: tuple[Replica, ...] = ()
    deal: tuple[int, ...] = (0,)
    beside: bool = False

    def steps_of(self, device: str) -> tuple[int, ...]:
        """Indices of the steps of `device`, in order."""
        return tuple(index for index, step in enumerate(self.steps) if step.device == device)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an executor gives back."""

    outputs: Mapping[str, Any]
    compile_s: float
    wall_s: float


def roundings_of(plan: Plan) -> tuple[Rounding, ...]:
    """Return, by node, the element types that its device in `plan` computes in another."""
    from hetsim.device.kernels.precision import check_rounding

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
            hint="run one of them alone, a plan of plan.replicas, or in the graph's own types",
        )
    return found[0]


def tolerance_of(plan: Plan) -> float:
    """Return how far outputs may be off where `plan` runs, over their largest magnitude."""
    from hetsim.device.registry import tolerance

    platform = plan.problem.platform
    if platform is None:
        return 0.0
    return max((tolerance(platform.devices[name]) for name in plan.devices_used), default=0.0)


def assemble(
    plan: Plan,
    model: Model,
    roundings: Sequence[Rounding] | None = None,
    hold_s: Sequence[float] | None = None,
) -> Program:
    """Cut `model`, which may be a staged copy of the plan's own, as `plan` says.

    `roundings`: those of ``roundings_of``; None: the types of the graph. With `hold_s`, real
    seconds by subgraph, devices take that long for each at least, and every subgraph is a step of
    its own.
    """
    # Not at the top: device processes read the records above, and need no onnx.
    from hetsim.execution.devices.weights import extents_of
    from hetsim.graph.extract import NO_NODE, runnable, runnable_dtypes

    platform = plan.problem.platform
    specs = {} if platform is None else platform.devices
    settings = {
        name: KernelSettings(threads=spec.threads, libraries=model.libraries)
        for name, spec in specs.items()
    }
    default = KernelSettings(libraries=model.libraries)
    foreign = {name: spec for name, spec in specs.items() if spec.backend != "simulated"}
    parts: list[Part] = []
    code: dict[str, list[Code]] = {device: [] for device in plan.devices_used}
    extents: dict[str, set[Extent]] = {device: set() for device in plan.devices_used}
    for index, group in enumerate(plan.groups):
        subgraph = runnable(model, group.nodes)
        proto = subgraph.proto
        if roundings is not None:
            from hetsim.device.kernels.precision import rounded

            around = [{} if node == NO_NODE else roundings[node] for node in subgraph.nodes]
            proto = rounded(proto, around, runnable_dtypes(model))
        parts.append(Part(group.device, subgraph.inputs, subgraph.outputs))
        names = [model.graph.nodes[node].name for node in group.nodes]
        code[group.device].append(
            Code(
                index,
                _about(index, names),
                proto.SerializeToString(),
                subgraph.outputs,
                foreign.get(group.device),
                settings.get(group.device, default),
                0.0 if hold_s is None else hold_s[index],
            )
        )
        extents[group.device].update(extents_of(subgraph.proto))
    steps: list[Step] = []
    replicas: list[Replica] = []
    for first, replica in zip(plan.offsets, plan.replicas, strict=True):
        own = parts[first : first + len(replica.groups)]
        made_by = steps_of(own, model.graph.outputs, fused=hold_s is None)
        replicas.append(Replica(len(steps), len(made_by), replica.groups))
        steps += [
            replace(step, parts=tuple(first + part for part in step.parts)) for step in made_by
        ]
    made = {name for part in parts for name in part.outputs}
    given = {*model.graph.inputs, *model.graph.constants}
    unmade = [name for name in model.graph.outputs if name not in made and name not in given]
    if unmade:
        # A request would wait for it without end.
        raise AssertionError(f"no subgraph makes output '{unmade[0]}' of {model.source}")
    return Program(
        steps=tuple(steps),
        code={device: tuple(entries) for device, entries in code.items()},
        extents={
            device: tuple(sorted(found, key=lambda r: (r.location, r.offset, r.nbytes)))
            for device, found in extents.items()
        },
        weights_dir=str(model.weights_dir) if model.weights_dir is not None else None,
        outputs=tuple(name for name in model.graph.outputs if name in made),
        replicas=tuple(replicas),
        deal=plan.period,
    )


def _about(index: int, names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:3])
    if len(names) > 3:
        shown += f" and {len(names) - 3} more"
    return f"subgraph g{index} ({shown})"
