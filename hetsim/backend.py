"""ONNX backend that runs any model in pieces on several devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.backend.base import Backend, BackendRep, namedtupledict

from hetsim.core import checks
from hetsim.errors import ModelError, RequestError, UsageError, nearest
from hetsim.execution.program import check_wait
from hetsim.execution.run import EXECUTORS, run
from hetsim.graph.dag import topological_order
from hetsim.graph.loading import model_of
from hetsim.graph.model import Model
from hetsim.graph.reading.onnx_runtime import check_versions
from hetsim.graph.reading.onnx_types import plain
from hetsim.problem.groups import Group
from hetsim.problem.of_model import values_of
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem

MOST_DEVICES = 10_000


@dataclass(frozen=True, slots=True)
class Split:
    """Devices, cuts and executor for running a model in pieces.

    Attributes
    ----------
    devices : int
        Number of identical devices.
    assignment : "random" or sequence of int
        Device by node, each node then a subgraph of its own; ``random`` samples them.
    cuts : int or None
        Number of subgraphs into which the nodes are divided at random, their graph acyclic; a
        smaller model has one per node. None: one per node.
    seed : int
        Seed of all random choices.
    executor : "threads" or "ray"
    address : str or None
        Ray cluster to join; None: as in ``hetsim.run``.
    timeout_s : float
        Limit for compiling, and again for running.
    """

    devices: int = 3
    assignment: Literal["random"] | Sequence[int] = "random"
    cuts: int | None = None
    seed: int = 0
    executor: Literal["threads", "ray"] = "threads"
    address: str | None = None
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        for name, least in (("devices", 1), ("cuts", 1), ("seed", 0)):
            number = getattr(self, name)
            if name == "cuts" and number is None:
                continue
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise UsageError(
                    f"{name} cannot be {checks.shown(number)}",
                    hint=f"give a whole number of {least} or more",
                )
        if self.devices > MOST_DEVICES:
            raise UsageError(
                f"{self.devices} devices are too many", hint=f"give up to {MOST_DEVICES}"
            )
        check_wait("timeout_s", self.timeout_s)
        if self.address is not None:
            checks.text(self.address, "address")
        if not isinstance(self.assignment, str):
            checks.sequence(checks.whole())(self.assignment, "assignment")
        checks.text(self.executor, "executor")
        if self.executor not in EXECUTORS:
            raise UsageError(
                f"there is no executor '{self.executor}'",
                hint=nearest(str(self.executor), EXECUTORS),
            )
        if isinstance(self.assignment, str):
            if self.assignment != "random":
                raise UsageError(
                    f"there is no assignment '{self.assignment}'",
                    hint="give 'random', or the index of a device for every node",
                )
        elif self.cuts is not None:
            raise UsageError(
                "cuts and an assignment are both given",
                hint="an assignment is of single nodes: give one of them",
            )


def split(model: Model, how: Split) -> Plan:
    """Return the plan that splits `model` by the settings of `how`.

    Raises UsageError if the assignment does not fit the model. O((V + E) log V).
    """
    graph = model.graph
    problem = like_devices(model, [f"cpu.{index}" for index in range(how.devices)])
    n = len(graph.nodes)
    generator = np.random.default_rng([how.seed, n])
    if isinstance(how.assignment, str):
        parts = _alone(n) if how.cuts is None else _cut(problem, how.cuts, generator)
        chosen = [int(device) for device in generator.integers(0, how.devices, len(parts))]
    else:
        parts = _alone(n)
        chosen = _given(how.assignment, n, how.devices, model.name)
    groups = tuple(
        Group(problem.devices[device], tuple(sorted(nodes)))
        for device, nodes in zip(chosen, parts, strict=True)
    )
    reason = f"{len(groups)} subgraphs of {n} nodes on {how.devices} devices, seed {how.seed}"
    plan = Plan(problem, "backend", groups, reason)
    plan.validate()
    return plan


def _alone(n: int) -> list[tuple[int, ...]]:
    return [(node,) for node in range(n)]


def _cut(problem: Problem, cuts: int, generator: np.random.Generator) -> list[tuple[int, ...]]:
    """Return groups cut from a random topological order at random places.

    Every partition with an acyclic graph of groups is possible: it is a cut of some order.
    """
    n = problem.n
    order = topological_order(problem.dag.succs, generator.permutation(n).tolist())
    if order is None:
        raise AssertionError("a model's graph has no cycle")
    count = min(cuts, n)
    places = np.sort(generator.permutation(max(0, n - 1))[: max(0, count - 1)]) + 1
    bounds = [0, *places.tolist(), n]
    return [tuple(order[a:b]) for a, b in pairwise(bounds) if a < b]


def _given(assignment: Sequence[int], n: int, devices: int, name: str) -> list[int]:
    if len(assignment) != n:
        raise UsageError(
            f"the assignment names {len(assignment)} devices for {n} nodes",
            where=f"model '{name}'",
            hint="give one for every node; Constant nodes and those no output needs do not count",
        )
    for device in assignment:
        if not 0 <= device < devices:
            raise UsageError(
                f"the assignment has device {device}",
                where=f"model '{name}'",
                hint=f"give 0 .. {devices - 1}",
            )
    return [int(device) for device in assignment]


def like_devices(model: Model, devices: Sequence[str]) -> Problem:
    """Return the problem of `model` on devices that take every node, the first of them the host.

    Each node takes one second on any of them: the question is placement, not time. O(V + E).
    """
    graph = model.graph
    problem = Problem.from_arrays(
        np.ones((len(graph.nodes), len(devices))),
        devices=devices,
        host=0,
        name=model.name,
    )
    return replace(
        problem,
        # A backend gets models with open sizes, and nothing here depends on them.
        values=values_of(graph, open_bytes=0),
        node_names=tuple(node.name for node in graph.nodes),
        op_types=tuple(node.op_type for node in graph.nodes),
        origins=tuple(node.origins for node in graph.nodes),
        model=model,
    )


def present(names: Iterable[str]) -> list[str]:
    """Return the names without those of absent values, which are empty."""
    return [name for name in names if name]


def model_of_node(
    node: onnx.NodeProto, values: Sequence[Any], version: int | None
) -> onnx.ModelProto:
    """Return a model of one node; `version` is that of the node's operator set, None the newest.

    Raises RequestError if the values do not match the node's inputs, or do not determine a type.
    """
    names = present(node.input)
    if len(values) != len(names):
        raise RequestError(
            f"{len(values)} values for {len(names)} inputs",
            where=f"node '{node.name or node.op_type}'",
            hint="give one for every input that has a name",
        )
    graph = onnx.helper.make_graph(
        [node],
        node.op_type,
        [
            onnx.helper.make_value_info(name, _type_of(value))
            for name, value in zip(names, values, strict=True)
        ],
        [onnx.ValueInfoProto(name=name) for name in present(node.output)],
    )
    domain = "" if node.domain == "ai.onnx" else node.domain
    chosen = _imports({"": _newest_opset(), domain: version or _newest_version(node, domain)})
    return onnx.helper.make_model(
        graph,
        opset_imports=chosen,
        ir_version=onnx.helper.find_min_ir_version_for(chosen, ignore_unknown=True),
    )


def _imports(versions: Mapping[str, int]) -> list[onnx.OperatorSetIdProto]:
    return [onnx.helper.make_opsetid(domain, version) for domain, version in versions.items()]


def _newest_version(node: onnx.NodeProto, domain: str) -> int:
    """Newest version of the op's domain; 1 for a domain that ONNX does not define."""
    if not domain:
        return _newest_opset()
    try:
        return int(onnx.defs.get_schema(node.op_type, domain).since_version)
    except onnx.defs.SchemaError:
        return 1


@cache
def _newest_opset() -> int:
    """Newest operator set that the installed onnx and ONNX Runtime both support."""
    for version in range(onnx.defs.onnx_opset_version(), 1, -1):
        chosen = _imports({"": version})
        trial = onnx.ModelProto(ir_version=onnx.helper.find_min_ir_version_for(chosen))
        trial.opset_import.extend(chosen)
        try:
            check_versions(trial, "operator set")
        except ModelError:
            continue
        return version
    return 1


def _type_of(value: NDArray[Any] | list[Any]) -> onnx.TypeProto:
    if isinstance(value, list):
        if not value:
            raise RequestError(
                "the type of an empty sequence is not known", hint="run a model that declares it"
            )
        return onnx.helper.make_sequence_type_proto(_type_of(np.asarray(value[0])))
    strings = value.dtype.kind in "OUT"
    kind = onnx.TensorProto.STRING if strings else onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    return onnx.helper.make_tensor_type_proto(kind, value.shape)


__all__ = [
    "HetsimBackend",
    "Split",
    "SplitModel",
    "is_compatible",
    "load",
    "make_backend",
    "prepare",
    "run_model",
    "run_node",
    "split",
    "supports_device",
]

_TOLERANCES = ("rtol", "atol")
"""Keywords that the suite's runner passes for its own comparison."""


class SplitModel(BackendRep):
    """Split model, ready to run.

    Attributes
    ----------
    plan : Plan
    """

    def __init__(self, model: Model, how: Split) -> None:
        self.plan = split(model, how)
        self._model = model
        self._how = how

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs, in the model's order.

        Parameters
        ----------
        inputs : sequence, mapping or array
            Inputs without a stored value, by position or by name; or the only one.

        Raises
        ------
        RequestError
            If they do not fit the model's inputs.
        ExecutionError
            If a device fails.
        """
        for name in kwargs:
            raise UsageError(
                f"there is no option '{name}' of a run", hint="give it where the model is prepared"
            )
        done = run(
            self.plan,
            _by_name(self._model, inputs),
            executor=self._how.executor,
            address=self._how.address,
            timeout_s=self._how.timeout_s,
            verify=False,
        )
        return tuple(done.outputs.values())


def _by_name(model: Model, inputs: Any) -> dict[str, Any]:
    names = model.graph.inputs
    if isinstance(inputs, Mapping):
        given = dict(inputs)
    else:
        if not isinstance(inputs, np.ndarray):
            checks.sequence()(inputs, "inputs")
        values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        if len(values) != len(names):
            raise RequestError(
                f"{len(values)} values for {len(names)} inputs",
                where=model.source,
                hint=f"give, in this order: {', '.join(names)}" if names else "give none",
            )
        given = dict(zip(names, values, strict=True))
    return {name: _array(value) for name, value in given.items()}


def _array(value: Any) -> Any:
    return plain(np.asarray(value) if isinstance(value, np.generic) else value)


class HetsimBackend(Backend):
    """Backend that runs ONNX models in pieces on identical devices; ``Split`` has the options.

    Every method takes options as keywords, which override those of the class.
    """

    how: ClassVar[Split] = Split()

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> SplitModel:
        """Return `model`, split. Optimises nothing: every node of the file stays a node.

        Raises
        ------
        UsageError
            If an option or the device does not exist.
        ModelError
            If ONNX Runtime cannot read the model, with its reason.
        """
        how = cls._how(device, kwargs)
        return SplitModel(load(model), how)

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether `model` can be prepared. Raises UsageError as `prepare` does."""
        how = cls._how(device, kwargs)
        try:
            SplitModel(load(model), how)
        except ModelError:
            return False
        return True

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node, and return its outputs as a named tuple.

        `opset_version` (a keyword) is the version of the operator set, by default the newest that
        ONNX Runtime supports; `outputs_info` is not needed.
        """
        version = kwargs.pop("opset_version", None)
        if not isinstance(inputs, np.ndarray):
            checks.sequence()(inputs, "inputs")
        values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        proto = model_of_node(node, [_array(value) for value in values], version)
        found = cls.prepare(proto, device, **kwargs).run(
            dict(zip(present(node.input), map(_array, values), strict=True))
        )
        named: tuple[Any, ...] = namedtupledict("Outputs", present(node.output))(*found)
        return named

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether `device` is a CPU: ``CPU`` or ``CPU:N``."""
        return isinstance(device, str) and device.partition(":")[0] == "CPU"

    @classmethod
    def _how(cls, device: str, kwargs: Mapping[str, Any]) -> Split:
        checks.text(device, "device")
        if not cls.supports_device(device):
            raise UsageError(f"there is no device '{device}'", hint="choose 'CPU'")
        return _options(cls.how, {name: v for name, v in kwargs.items() if name not in _TOLERANCES})


def make_backend(**options: Any) -> type[HetsimBackend]:
    """Return a backend class whose models are split by `options`, the fields of ``Split``.

    Raises UsageError for an unknown option or an invalid value.
    """
    return type("HetsimBackend", (HetsimBackend,), {"how": _options(Split(), options)})


def _options(base: Split, options: Mapping[str, Any]) -> Split:
    known = [entry.name for entry in fields(Split)]
    for name in options:
        if name not in known:
            raise UsageError(f"there is no option '{name}'", hint=nearest(name, known))
    return replace(base, **options) if options else base


def load(proto: onnx.ModelProto) -> Model:
    """Return the model without optimisation, so that each node of the file stays a node."""
    checks.instance("onnx:ModelProto")(proto, "model")
    return model_of(proto, name=proto.graph.name or "model", canonical="none", measure=False)


prepare = HetsimBackend.prepare
run_model = HetsimBackend.run_model
run_node = HetsimBackend.run_node
supports_device = HetsimBackend.supports_device
is_compatible = HetsimBackend.is_compatible
