"""A compiled plan for real, held against the whole model where that is still there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from hetsim.errors import HetsimError, InvalidInput
from hetsim.execution.compiled.manifest import PLAN
from hetsim.execution.equality import judged
from hetsim.execution.inputs_outputs import check_how, given_inputs
from hetsim.execution.run import run_whole
from hetsim.execution.transports.executors import execute
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.model import Model
from hetsim.problem.saved import stated_model

if TYPE_CHECKING:
    from hetsim.execution.compiled.read import CompiledPlan
    from hetsim.graph.inputs.arrays import Inputs


@dataclass(frozen=True)
class CompiledRun:
    """What a compiled plan computed.

    Attributes
    ----------
    outputs : dict of str to array
        In the model's order; a list for a sequence, None for an empty optional.
    bitwise_equal : bool or None
        Whether they equal those of the whole model to the last bit; None: not compared.
    mismatches : tuple of str
        The outputs that are further off than `tolerance` allows, each with in what it differs.
    tolerance : float
        As in ``hetsim.Run``.
    not_compared : str or None
        Why there was nothing to compare with.
    executor : str
    wall_s, compile_s : float
        Real seconds of the execution, and before it until every device was ready.
    steps : int
    """

    outputs: dict[str, NDArray[Any]] = field(repr=False)
    bitwise_equal: bool | None
    mismatches: tuple[str, ...]
    tolerance: float
    not_compared: str | None
    executor: str
    wall_s: float
    compile_s: float
    steps: int


def run_compiled(
    compiled: CompiledPlan,
    inputs: Inputs | None = None,
    *,
    executor: Literal["ray", "threads"] = "ray",
    address: str | None = None,
    timeout_s: float = 600.0,
    verify: bool = True,
    seed: int = 0,
) -> CompiledRun:
    """Run a compiled plan; the model's file need not be there.

    Parameters are those of ``hetsim.run``; the random inputs of a seed are the same too.
    With `verify` the outputs are compared with those of the whole model where it is still
    at the place that the plan names and has the digest that the plan recorded.

    Raises
    ------
    UsageError
        Where options do not exist or do not go together.
    RequestError
        Where the inputs do not fit the model.
    ExecutionError
        Where a device fails or does not answer in time, or Ray does not start.
    """
    check_how(executor, address, timeout_s)
    given = given_inputs(_stand_in(compiled), inputs, seed)
    names = {*given, *(name for step in compiled.program.steps for name in step.sends)}
    crossing = sum(compiled.values[name].nbytes for name in sorted(names))
    outcome = execute(compiled.program, given, executor, address, timeout_s, crossing)
    known = {**given, **compiled.constants, **outcome.outputs}
    outputs = {name: known[name] for name in compiled.manifest.outputs}
    reference: dict[str, Any] | None = None
    not_compared: str | None = "not asked for"
    if verify:
        reference, not_compared = _reference(compiled, given)
    tolerance = compiled.manifest.tolerance
    verdict = None if reference is None else judged(outputs, reference, tolerance)
    return CompiledRun(
        outputs=outputs,
        bitwise_equal=None if verdict is None else verdict.bitwise_equal,
        mismatches=() if verdict is None else verdict.mismatches,
        tolerance=tolerance,
        not_compared=not_compared,
        executor=executor,
        wall_s=outcome.wall_s,
        compile_s=outcome.compile_s,
        steps=len(compiled.program.steps),
    )


def _stand_in(compiled: CompiledPlan) -> Model:
    """A model of nothing but the inputs, and of what says which numbers those take."""
    import onnx

    tensors: dict[str, Tensor] = {}
    nodes: list[Node] = []
    asked: dict[str, tuple[int, ...]] = {}
    for value in compiled.manifest.inputs:
        kind = value.type.partition("(")[0]
        tensors[value.name] = Tensor(value.name, kind, value.spec.shape)
    for value in compiled.manifest.inputs:
        if value.below is not None:
            table, row = f"table {len(tensors)}", f"row {len(tensors)}"
            tensors[table] = Tensor(table, "float32", (value.below,))
            place = len(nodes)
            nodes.append(Node(place, row, "Gather", "", (table, value.name), (row,)))
        elif value.asked is not None:
            constant, same = f"asked {len(tensors)}", f"same {len(tensors)}"
            asked[constant] = (value.asked,)
            tensors[constant] = Tensor(constant, "int64", ())
            nodes.append(Node(len(nodes), same, "Equal", "", (value.name, constant), (same,)))
    graph = Graph(
        name="inputs",
        nodes=tuple(nodes),
        tensors=tensors,
        inputs=tuple(value.name for value in compiled.manifest.inputs),
        outputs=(),
        constants=frozenset(),
        opsets={},
        constant_values=asked,
    )
    return Model(
        name="inputs", source=str(compiled.folder), graph=graph, proto=onnx.ModelProto(),
        weights_dir=None, sha256="", canonical="none", dims={}, shapes={}, file_nodes=(),
        folded=(),
    )  # fmt: skip


def _reference(
    compiled: CompiledPlan, inputs: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, str | None]:
    """Outputs of the whole model in one session; or why there is no such model any more."""
    from hetsim.execution.devices.weights import staged

    try:
        model = stated_model(compiled.plan.get("model"), str(compiled.folder / PLAN))
        roundings = _roundings(compiled, model)
    except HetsimError as error:
        place = f"{error.where}: " if error.where else ""
        return None, f"no whole model to compare with: {place}{error.what}"
    with staged(model) as staged_model:
        return run_whole(staged_model, inputs, roundings), None


def _roundings(compiled: CompiledPlan, model: Model) -> list[Mapping[str, str]] | None:
    """What becomes of element types at each node of the whole model; None for nothing."""
    if compiled.manifest.precision == "graph":
        return None
    by_device = {device.name: device.rounding for device in compiled.manifest.devices}
    by_node: dict[str, Mapping[str, str]] = {}
    for group in compiled.plan["groups"]:
        by_node.update(dict.fromkeys(group["nodes"], by_device.get(group["device"], {})))
    unknown = [node.name for node in model.graph.nodes if node.name not in by_node]
    if unknown:
        raise InvalidInput(f"the plan has no node '{unknown[0]}' of it")
    return [by_node[node.name] for node in model.graph.nodes]
