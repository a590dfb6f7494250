"""Measurement run of a whole model in ONNX Runtime for shapes that inference cannot find."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from hetsim.core.files import scratch_folder
from hetsim.core.process import begun
from hetsim.core.room import memory_bytes, out_of_room, resident_bytes
from hetsim.core.units import format_bytes
from hetsim.errors import ModelError
from hetsim.graph.graph import ITEM_BITS, Graph
from hetsim.graph.reading.session import (
    OVER_LIMIT,
    SILENT,
    gist,
    kernel_events,
    open_session,
    quiet_runtime,
)
from hetsim.graph.reading.structure import bodies
from hetsim.graph.shapes.observed import Observed, Shape, shapes_of
from hetsim.graph.shapes.open_shapes import RANDOM

LIMIT_S, DRAWN_LIMIT_S, SHORT_LIMIT_S = 120.0, 30.0, 10.0
"""Time limits for shapes: on given inputs; on random ones, on which a loop may not end; and for
trip counts only."""

GROWTH_BYTES = 2**30
"""Additional memory of a run, besides twice its values of known size: a loop may collect values,
and the profile records each turn."""

_OVER = "it takes more than {} of memory"
_LOOK_S = 0.02

_NO_LIMIT = 2**31 - 1
"""Loop limit that counts as unlimited: exporters write the largest integer."""


@dataclass(slots=True)
class _Body:
    """Graph among the attributes of a node, and the stand-in names of its nodes."""

    path: str
    owner: str
    op_type: str
    attribute: str
    nodes: dict[str, onnx.NodeProto] = field(default_factory=dict)


@dataclass(slots=True)
class _Events:
    """Number of runs of a node, and the shapes of its tensor outputs."""

    runs: int = 0
    shapes: list[Shape] = field(default_factory=list)


def has_control_flow(proto: onnx.ModelProto) -> bool:
    """Return whether some node of the graph has bodies."""
    return any(bodies(node) for node in proto.graph.node)


def has_open_loop(graph: onnx.GraphProto, stored: Collection[str] = ()) -> bool:
    """Return whether a Loop of the model or its bodies has no constant trip limit."""
    known = {*stored}
    known.update(
        tensor.name
        for tensor in graph.initializer
        if tensor.data_type == onnx.TensorProto.INT64
        and math.prod(tensor.dims) == 1
        and onnx.numpy_helper.to_array(tensor).reshape(-1)[0] < _NO_LIMIT
    )
    known.update(name for n in graph.node if n.op_type == "Constant" for name in n.output)
    for node in graph.node:
        if node.op_type == "Loop" and node.input[0] not in known:
            return True
        if any(has_open_loop(body, known) for body in bodies(node)):
            return True
    return False


def open_values(graph: Graph) -> tuple[str, ...]:
    """Return the tensors of `graph` with a shape not known in numbers, in order."""
    return tuple(
        tensor.name
        for tensor in graph.tensors.values()
        if (tensor.dtype in ITEM_BITS or tensor.dtype == "string") and not tensor.is_static
    )


def observe(
    proto: onnx.ModelProto,
    graph: Graph,
    weights_dir: Path | None,
    inputs: Mapping[str, Any],
    *,
    source: str,
    given: bool,
    where: str,
    libraries: tuple[str, ...] = (),
    limit_s: float = LIMIT_S,
) -> Observed:
    """Run the canonical model `proto` on `inputs` once, and return the observations.

    Shapes are read by Shape nodes, so no value is kept for them; shapes in bodies are read from
    ONNX Runtime's profile. `proto` is restored afterwards.

    Raises ModelError if the model does not run on these inputs, or not within `limit_s` and twice
    the memory of values of known size plus `GROWTH_BYTES`, at most half of the machine's.
    """
    sizes = [tensor.nbytes for tensor in graph.tensors.values() if tensor.is_static]
    most_bytes = min(2 * sum(sizes) + GROWTH_BYTES, memory_bytes() // 2)
    if max(sizes, default=0) > most_bytes:
        raise _not_run(source, where, f"one of its values alone takes {format_bytes(max(sizes))}")
    values = [name for name in open_values(graph) if name not in graph.inputs]
    found_bodies: list[_Body] = []
    with (
        _prepared(proto, graph, values, found_bodies) as asked,
        scratch_folder() as folder,
    ):
        profile = folder / "profile" if found_bodies else None
        session = open_session(
            proto,
            weights_dir,
            "none",
            where,
            libraries=libraries,
            profile=profile,
            most_bytes=most_bytes,
        )
        found = _run(session, inputs, proto, list(asked), source, where, limit_s, most_bytes)
        events = _events(kernel_events(session)) if profile is not None else {}
    shapes = {
        name: tuple(int(size) for size in shape)
        for name, shape in zip(asked.values(), found, strict=True)
        if name in values
    }
    branches, trips = _taken(found_bodies, events)
    inner = {body.path: _inner_shapes(body, events) for body in found_bodies}
    return Observed(
        source=source,
        given=given,
        inputs=shapes_of(inputs),
        shapes=shapes,
        branches=branches,
        trips=trips,
        inner={path: written for path, written in inner.items() if written},
    )


@contextmanager
def _prepared(
    proto: onnx.ModelProto, graph: Graph, values: Collection[str], found: list[_Body]
) -> Iterator[dict[str, str]]:
    """Modify `proto` to output only shapes, with inner nodes named and random ones seeded."""
    model = proto.graph
    kept_nodes = len(model.node)
    outputs = [onnx.ValueInfoProto.FromString(v.SerializeToString()) for v in model.output]
    names: list[tuple[onnx.NodeProto, str]] = []
    seeded: list[onnx.NodeProto] = []
    has_standard = any(entry.domain == "" for entry in proto.opset_import)
    # At least one shape is requested, as other outputs may have types that NumPy lacks.
    some = [*values] or [
        name for name, t in graph.tensors.items() if t.dtype in ITEM_BITS and t.shape is not None
    ][:1]
    asked = {f"{name}/shape": name for name in some}
    try:
        _rename(model, "", found, names, seeded)
        if not has_standard:
            proto.opset_import.add(domain="", version=_STANDARD)
        for output, name in asked.items():
            model.node.append(onnx.helper.make_node("Shape", [name], [output]))
        if asked:
            del model.output[:]
            model.output.extend(onnx.ValueInfoProto(name=output) for output in asked)
        yield asked
    finally:
        del model.node[kept_nodes:]
        del model.output[:]
        model.output.extend(outputs)
        if not has_standard:
            del proto.opset_import[-1]
        for node, name in names:
            node.name = name
        for node in seeded:
            del node.attribute[-1]


_STANDARD = 15
"""Operator set of Shape if the model uses none of the standard's."""


def _rename(
    graph: onnx.GraphProto,
    path: str,
    found: list[_Body],
    names: list[tuple[onnx.NodeProto, str]],
    seeded: list[onnx.NodeProto],
    into: _Body | None = None,
) -> None:
    for position, node in enumerate(graph.node):
        own = path + (node.name or f"{node.op_type}_{position}")
        if into is not None:
            names.append((node, node.name))
            node.name = f"hetsim/{len(names)}"
            into.nodes[node.name] = node
        if node.op_type in RANDOM and not any(a.name == "seed" for a in node.attribute):
            node.attribute.append(onnx.helper.make_attribute("seed", 0.0))
            seeded.append(node)
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else attribute.graphs
            for body in inner:
                record = _Body(f"{own}/{attribute.name}", node.name, node.op_type, attribute.name)
                found.append(record)
                _rename(body, f"{record.path}/", found, names, seeded, record)


def _run(
    session: Any,
    inputs: Mapping[str, Any],
    proto: onnx.ModelProto,
    names: list[str],
    source: str,
    where: str,
    limit_s: float,
    most_bytes: int,
) -> list[Any]:
    runtime = quiet_runtime()
    options = runtime.RunOptions()
    options.log_severity_level = SILENT
    reasons: list[str] = []
    done = threading.Event()

    def watch() -> None:
        before, end_s = resident_bytes(), time.monotonic() + limit_s
        while not done.wait(_LOOK_S):
            if time.monotonic() > end_s:
                reasons.append(f"it did not end within {limit_s:g} s")
            elif resident_bytes() - before > most_bytes:
                reasons.append(_OVER.format(format_bytes(most_bytes)))
            if reasons:
                options.terminate = True
                return

    watcher = begun(threading.Thread(target=watch, daemon=True))
    try:
        feeds = {v.name: _feed(inputs[v.name], v.type) for v in proto.graph.input}
        if any(isinstance(value, runtime.OrtValue) for value in feeds.values()):
            wrapped = {
                name: value
                if isinstance(value, runtime.OrtValue)
                else runtime.OrtValue.ortvalue_from_numpy(value)
                for name, value in feeds.items()
            }
            return [v.numpy() for v in session.run_with_ort_values(names, wrapped, options)]
        return list(session.run(names or None, feeds, options)) if names else []
    except Exception as error:  # onnxruntime's exceptions have no common base class
        if OVER_LIMIT in str(error):
            reasons.append(_OVER.format(format_bytes(most_bytes)))
        short = None if reasons else out_of_room(error, where)
        what = reasons[0] if reasons else gist(str(error))
        raise short or _not_run(source, where, what) from error
    finally:
        done.set()
        watcher.join()


def _not_run(source: str, where: str, what: str) -> ModelError:
    return ModelError(
        f"the model does not run with {source}: {what}",
        where=where,
        hint="give inputs that it accepts: --input FILE.npz",
    )


def _feed(value: Any, kind: onnx.TypeProto) -> Any:
    """Return the value in a form that ONNX Runtime takes, for types that NumPy lacks."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "V":
        return quiet_runtime().OrtValue.ortvalue_from_numpy_with_onnx_type(
            value, kind.tensor_type.elem_type
        )
    return value


def _events(kernels: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, _Events]:
    """Return by node name, from a profile, its runs and the largest shape of each output."""
    found: dict[str, _Events] = {}
    for name, event in kernels:
        seen = found.setdefault(name, _Events())
        seen.runs += 1
        shapes = [
            tuple(int(size) for size in shape)
            for entry in event["args"].get("output_type_shape", ())
            for shape in entry.values()
        ]
        if len(shapes) != len(seen.shapes):
            seen.shapes = shapes
        else:
            pairs = zip(seen.shapes, shapes, strict=True)
            seen.shapes = [max(old, new, key=math.prod) for old, new in pairs]
    return found


def _taken(
    seen: list[_Body], events: Mapping[str, _Events]
) -> tuple[dict[str, str], dict[str, float]]:
    """Return branches by path of the If, and iterations by path of the Loop or Scan."""
    branches: dict[str, str] = {}
    trips: dict[str, float] = {}
    choices: dict[str, dict[str, int | None]] = {}
    owners: dict[str, str] = {}
    for body in seen:
        path = body.path.rpartition("/")[0]
        runs = events[body.owner].runs if body.owner in events else 0
        times = max((events[name].runs for name in body.nodes if name in events), default=0)
        # Constants and passed-on values are no kernels: their body leaves no trace.
        idle = all(node.op_type == "Constant" for node in body.nodes.values())
        if body.op_type == "If":
            choices.setdefault(path, {})[body.attribute] = None if idle else times
            owners[path] = body.owner
        elif runs and not idle:
            trips[path] = times / runs
    for path, counts in choices.items():
        runs = events[owners[path]].runs if owners[path] in events else 0
        known = [count for count in counts.values() if count is not None]
        if runs and known:
            full = {n: runs - sum(known) if c is None else c for n, c in counts.items()}
            branches[path] = max(full, key=lambda name: (full[name], name == "then_branch"))
    return branches, trips


def _inner_shapes(body: _Body, events: Mapping[str, _Events]) -> dict[str, Shape]:
    found: dict[str, Shape] = {}
    for name, node in body.nodes.items():
        written = [value for value in node.output if value]
        # The profile lists only tensors, without their position among other outputs.
        if name in events and len(events[name].shapes) == len(written):
            found.update(zip(written, events[name].shapes, strict=True))
    return found
