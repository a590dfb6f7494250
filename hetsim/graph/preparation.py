"""Preparation of a Model from a file: bound, canonical, and measured if needed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx

from hetsim.errors import ModelError, NoKernel, OutOfRoom, RequestError, UsageError
from hetsim.graph.batching import widen
from hetsim.graph.canonical.canonical_model import Canonical, Opened, canonicalise, changed
from hetsim.graph.canonical.folding import fold_branches
from hetsim.graph.canonical.half_precision import mentions, mentions_half
from hetsim.graph.graph import Graph, Tensor
from hetsim.graph.inputs.arrays import Inputs, check_arrays, read_npz
from hetsim.graph.inputs.samples import draw_inputs
from hetsim.graph.model import FileNode, Model, take_device_notes
from hetsim.graph.reading.extension import Custom, Extension, extend, load_extension
from hetsim.graph.reading.onnx_file import OnnxFile, refers_outside
from hetsim.graph.reading.onnx_runtime import MANY_TREE_NODES, check_versions, tree_nodes
from hetsim.graph.reading.onnx_types import plain, to_tensor
from hetsim.graph.reading.structure import regularise
from hetsim.graph.shapes.binding import Undo, batching_dims, bind, freeze, undo, without_frozen
from hetsim.graph.shapes.inference import annotate
from hetsim.graph.shapes.measurement import (
    DRAWN_LIMIT_S,
    LIMIT_S,
    SHORT_LIMIT_S,
    has_control_flow,
    has_open_loop,
    observe,
    open_values,
)
from hetsim.graph.shapes.observed import Observed, shapes_of
from hetsim.graph.shapes.open_shapes import open_dims, open_ranks
from hetsim.graph.work.rule import key_of_op

RANDOM = "random inputs"


MOST_REWRITTEN = 30_000
"""Number of nodes above which ONNX Runtime rewrites a graph only on request."""

_TRIED_ELEMENTS = 2**26
"""Maximum elements of random inputs for measuring shapes."""


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """Options of reading a model; the fields are the parameters of ``load_model``.

    `arrays` are the given inputs, as kernels read them, named `label` in reports.
    """

    dims: Mapping[str, int]
    shapes: Mapping[str, Sequence[int]]
    inputs: Inputs | None
    freeze: Mapping[str, object]
    canonical: str | None
    extensions: tuple[str | os.PathLike[str] | Extension, ...]
    measure: bool
    observed: Observed | None = None
    arrays: dict[str, Any] | None = None
    label: str = ""


_OF_ACCELERATORS = frozenset(
    kind
    for name, kind in onnx.TensorProto.DataType.items()
    if name.startswith(("BFLOAT16", "FLOAT8", "FLOAT4"))
)
"""Float types of accelerators, for which ONNX Runtime's CPU has few kernels."""


def prepare(file: OnnxFile, name: str, source: str, options: ReadingOptions) -> Model:
    """Return the Model of `file` with `options`; `file` is consumed."""
    proto = file.proto
    if isinstance(options.inputs, Mapping):
        given = {name: plain(value) for name, value in options.inputs.items()}
        options = replace(options, arrays=given, label="the inputs given")
    elif options.inputs is not None:
        given = read_npz(Path(options.inputs), {i.name: _as_fixed(i) for i in proto.graph.input})
        options = replace(options, arrays=given, label=os.fspath(options.inputs))
    declared: dict[str, onnx.TypeProto] = {}
    given_once = options.observed is not None and options.observed.given
    if not (options.dims or options.shapes or options.arrays or given_once):
        # After binding, the output types stated in the file may be outdated.
        for value in proto.graph.output:
            declared[value.name] = type(value.type)()
            declared[value.name].CopyFrom(value.type)
    added = tuple(load_extension(extension) for extension in options.extensions)
    try:
        custom = extend(proto, added)
    except ValueError as error:
        raise ModelError(
            str(error),
            where=source,
            hint=("inline functions that are called once, or split the model"),
        ) from None
    nodes = regularise(proto, source)
    # Values derived from them have other outputs.
    in_file = tuple(
        FileNode(node.name, key_of_op(node.op_type, node.domain), tuple(node.output))
        for node in nodes
    )
    check_versions(proto, source, custom.libraries)
    notes = take_device_notes(proto, nodes)
    requests = batching_dims(proto.graph, options.dims, source)
    if added or mentions_half(proto):
        file.complete(proto)
    bound = {key: int(size) for key, size in options.dims.items()}
    if requests is not None:
        options = replace(options, dims=requests.others)
    frozen = freeze(proto.graph, options.freeze, options.dims, options.shapes, source)
    if frozen or options.canonical != "none":
        fold_branches(proto, source, custom.libraries)
    arrays = None if options.arrays is None else without_frozen(options.arrays, frozen, source)
    level, unoptimised = _level(options.canonical, proto.graph.node)
    options = replace(
        options,
        canonical=level,
        arrays=arrays,
        shapes={name: shape for name, shape in options.shapes.items() if name not in frozen},
    )
    folder = file.folder.resolve()
    weights_dir = folder if refers_outside(proto) else None
    opened = Opened(proto, nodes, weights_dir, name, source, custom, declared)
    try:
        result, graph, refused = _bound(opened, options)
    except NoKernel as error:
        if not mentions(proto, _OF_ACCELERATORS):
            raise
        # It can be priced by other devices' rules; execution reports the failure.
        level, unoptimised = "none", f"{error.what}, so the model cannot be run here"
        options = replace(options, canonical=level)
        result, graph, refused = _bound(replace(opened, runs=False), options)
    if requests is not None and requests.size > 1:
        if arrays is not None:
            raise UsageError(
                f"inputs are given, but '{requests.names[0]}[0]' is bound, which is 1 in the file",
                where=source,
                hint="remove one of them",
            )
        if refused is not None:
            raise ModelError(
                "it takes one request at a time, and has control flow with open shapes",
                where=source,
                hint="export the model with an open batch dimension",
            )
        outside = folder if refers_outside(result.proto) else None
        widen(result.proto, graph, requests.names, requests.size, outside, source)
        result = changed(result, outside, source, custom)
        graph = result.graph
    if arrays is not None:
        check_arrays(graph, arrays, source)
    outside = folder if refers_outside(result.proto) else None
    observed, unmeasured = _observed(result, graph, outside, options, source, custom)
    if refused is not None and observed is None:
        raise ModelError(
            refused.what,
            where=refused.where,
            hint="if it does run with these shapes, give the inputs of one run with --input "
            "FILE.npz, or fix the input that chooses a branch with --freeze NAME=VALUE",
        ) from None
    if observed is None and arrays:
        # Without them, saved plans could not bind the inputs again.
        observed = Observed(options.label, True, shapes_of(arrays), {}, {}, {}, {})
    shapes = {} if observed is None else dict(observed.shapes)
    for tensor in graph.inputs:
        if graph.tensors[tensor] != result.graph.tensors[tensor]:
            shapes[tensor] = graph.tensors[tensor].static_shape
    if shapes or observed:
        graph = result.with_shapes(shapes, custom, observed)
    _check_not_empty(graph, options, source)
    digest = file.digest
    if added:
        digests = "\0".join((file.sha256, *(extension.sha256 for extension in added)))
        digest = hashlib.sha256(digests.encode()).hexdigest()
    return Model(
        name=name,
        source=source,
        graph=graph,
        stored=result.proto,
        file=None if file.apart is None else replace(file, proto=result.proto),
        weights_dir=None if file.apart is not None else outside,
        digest=digest,
        canonical=level,
        dims=bound,
        shapes={key: tuple(int(n) for n in shape) for key, shape in options.shapes.items()},
        file_nodes=in_file,
        folded=result.folded,
        device_notes=notes,
        extensions=added,
        frozen=frozen,
        lowering=result.lowering,
        observed=observed,
        unmeasured=unmeasured,
        unoptimised=unoptimised,
    )


def _as_fixed(value: onnx.ValueInfoProto) -> Tensor:
    """Return an input with the sizes fixed by the file; an array binds the others."""
    tensor = to_tensor(value.name, value.type)
    if tensor.shape is None:
        return tensor
    fixed = (size if isinstance(size, int) and size >= 0 else None for size in tensor.shape)
    return replace(tensor, shape=tuple(fixed))


def _check_not_empty(graph: Graph, options: ReadingOptions, source: str) -> None:
    """Raise UsageError if sizes of 0 leave nothing to compute."""
    zeros = [f"--dim {name}=0" for name, size in options.dims.items() if size == 0]
    zeros += [
        f"--shape {name}={','.join(map(str, s))}" for name, s in options.shapes.items() if 0 in s
    ]
    outputs = [graph.tensors[name].shape for name in graph.outputs]
    if zeros and all(shape is not None and 0 in shape for shape in outputs):
        raise UsageError(
            f"every output of the model is empty with {' '.join(zeros)}",
            where=source,
            hint="size 0 fits only optional data, such as a cache: use 1 or more",
        )


def _level(asked: str | None, nodes: Sequence[onnx.NodeProto]) -> tuple[str, str | None]:
    """Return the optimisation level, and the reason for an automatic ``none``."""
    if asked is not None:
        return asked, None
    unrewritten = "takes more time than it saves (--canonical basic does it)"
    if len(nodes) > MOST_REWRITTEN:
        return "none", f"rewriting {len(nodes):,} nodes {unrewritten}"
    if (count := tree_nodes(nodes)) >= MANY_TREE_NODES:
        return "none", f"rewriting {count:,} nodes of trees {unrewritten}"
    return "basic", None


def _bound(file: Opened, options: ReadingOptions) -> tuple[Canonical, Graph, ModelError | None]:
    """Return the canonical model with dims bound, its graph, and ONNX Runtime's error, if any.

    The runtime checks every branch, taken or not, if it knows shapes: a model that it rejects for
    that stays open, and only the inputs of the graph are bound.
    """
    binding = _bind(file.proto.graph, file.source, options)
    level = options.canonical or "basic"
    try:
        result = canonicalise(file, level)
    except ModelError as error:
        if not binding:
            raise
        refused = error
    else:
        return result, result.graph, None
    stated = {value.name: to_tensor(value.name, value.type) for value in file.proto.graph.input}
    undo(binding)
    try:
        result = canonicalise(file, level)
    except ModelError:
        raise refused from None
    again = _bind(result.proto.graph, file.source, options)
    weights_dir = file.weights_dir if refers_outside(result.proto) else None
    try:
        annotate(result.proto, weights_dir, {}, file.source, accepted=False, custom=file.custom)
    except ModelError:
        undo(again)
    else:
        result = replace(result, graph=result.with_shapes({}, file.custom, None))
        return result, result.graph, None
    tensors = dict(result.graph.tensors)
    for name, tensor in stated.items():
        if tensor.shape is not None:
            tensors[name] = replace(tensors[name], shape=tensor.shape)
    return result, replace(result.graph, tensors=tensors), refused


def _bind(graph: onnx.GraphProto, source: str, options: ReadingOptions) -> Undo:
    given: dict[str, Sequence[int]] | None = None
    if options.arrays is not None:
        given = dict(shapes_of(options.arrays))
    elif options.observed is not None and options.observed.given:
        given = dict(options.observed.inputs)
    return bind(graph, options.dims, options.shapes, source, given)


def _observed(
    result: Canonical,
    graph: Graph,
    weights_dir: Path | None,
    options: ReadingOptions,
    source: str,
    custom: Custom,
) -> tuple[Observed | None, str | None]:
    """Return observations of a run, if it is useful; else the reason why there was none."""
    if options.observed is not None:
        unknown = [name for name in options.observed.shapes if name not in graph.tensors]
        if unknown:
            raise ModelError(
                f"the plan refers to a measured value '{unknown[0]}', which the model does not "
                "have",
                where=source,
                hint="plan again",
            )
        return options.observed, None
    inputs_open = bool(open_dims(graph) or open_ranks(graph))
    needed = any(name not in graph.inputs for name in open_values(graph))
    given = options.arrays is not None
    # Branches on random inputs are not representative, and trip counts only roughly.
    ways = has_control_flow(result.proto) if given else has_open_loop(result.proto.graph)
    if inputs_open or not (needed or ways):
        return None, None
    if not options.measure:
        return None, "a run is needed and was not allowed" if needed else None
    kinds = {value.name: value.type for value in result.proto.graph.input}
    try:
        arrays = (
            options.arrays
            if options.arrays is not None
            else draw_inputs(graph, kinds, most=_TRIED_ELEMENTS)
        )
        seen = observe(
            result.proto,
            graph,
            weights_dir,
            arrays,
            source=options.label if given else RANDOM,
            given=given,
            where=source,
            libraries=custom.libraries,
            limit_s=LIMIT_S if given else DRAWN_LIMIT_S if needed else SHORT_LIMIT_S,
        )
    except (ModelError, RequestError, OutOfRoom) as error:
        if given:
            raise
        return None, error.what if needed else None
    return seen, None
