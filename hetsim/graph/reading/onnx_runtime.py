"""Model reading by ONNX Runtime: versions, types, offline optimisation.

Large constants are moved to a separate file meanwhile: within the model they would be copied when
it is serialised, parsed, and when the result is written and read. From a file they are mapped, and
only folded ones are read.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import onnx

from hetsim.core.files import scratch_folder
from hetsim.core.room import no_room_in, out_of_room
from hetsim.errors import ModelError
from hetsim.graph.reading.external_data import externalise, reference_of
from hetsim.graph.reading.lazy_weights import LARGE_BYTES, MOST_BYTES, PAYS_BYTES
from hetsim.graph.reading.onnx_file import tensors_of, weight_bytes
from hetsim.graph.reading.onnx_types import bytes_of, parse_type
from hetsim.graph.reading.session import open_session
from hetsim.graph.reading.structure import bodies

MANY_TREE_NODES = 2**18
"""Number of tree nodes from which rewriting a graph takes longer than it gains."""

_ASIDE = "aside.bin"
_ELSEWHERE = "set TMPDIR to a writable folder with free space, or use --canonical none"


def check_versions(proto: onnx.ModelProto, where: str, libraries: Sequence[str] = ()) -> None:
    """Raise ModelError if the installed runtime cannot read the model's IR or opsets."""
    newest: dict[str, int] = {}
    for imports in (proto.opset_import, *(f.opset_import for f in proto.functions)):
        for entry in imports:
            domain = "" if entry.domain == "ai.onnx" else entry.domain
            newest[domain] = max(entry.version, newest.get(domain, 0))
    trial = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Identity", ["x"], ["y"])],
            "versions",
            [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])],
        ),
        opset_imports=[onnx.helper.make_opsetid(d, v) for d, v in newest.items()],
        ir_version=proto.ir_version,
    )
    open_session(trial, None, "none", where, libraries=libraries)


def optimise(
    proto: onnx.ModelProto,
    weights_dir: Path | None,
    level: str,
    where: str,
    libraries: Sequence[str] = (),
    fold_large: bool = True,
) -> onnx.ModelProto:
    """Return the model after ONNX Runtime's offline optimisation.

    Constant subexpressions are folded, except large ones if `fold_large` is False. Unchanged
    weights stay external references; new ones are inline. The file that it writes is in a temporary
    folder and removed afterwards.
    """
    fold_large = fold_large and weight_bytes(proto, external=True) <= MOST_BYTES
    try:
        with scratch_folder() as folder, _aside(proto, weights_dir) as (left, weights, kept):
            saved = folder / "optimised.onnx"
            try:
                open_session(
                    left, weights, level, where, saved, libraries, fold_large=fold_large, runs=False
                )
            except ModelError as error:
                # It reports a failure to write like an error in a model.
                short = no_room_in(
                    folder, weight_bytes(left, external=False), where, hint=_ELSEWHERE
                )
                if short is None:
                    raise
                raise short from error
            made = _written(saved, weight_bytes(left, external=False), where)
    except OSError as error:
        raise out_of_room(error, where, path=tempfile.gettempdir(), hint=_ELSEWHERE) or ModelError(
            f"the optimised model cannot be written: {error.strerror or error}",
            where=where,
            hint=_ELSEWHERE,
        ) from error
    if kept:
        _give_back(made, kept)
    _widen_indices(made.graph)
    return made


def _written(saved: Path, nbytes: int, where: str) -> onnx.ModelProto:
    """Return the model written by ONNX Runtime, which may be silently truncated."""
    try:
        return onnx.load(str(saved), load_external_data=False)
    except OSError:
        raise
    except Exception as error:  # protobuf's own type depends on its backend
        short = no_room_in(saved.parent, nbytes, where, hint=_ELSEWHERE)
        raise short or ModelError(
            "the optimised model is damaged", where=where, hint="use --canonical none"
        ) from error


def _widen_indices(graph: onnx.GraphProto) -> None:
    """Convert the indices of sparse constants to int64, as in ONNX, in place."""
    for sparse in graph.sparse_initializer:
        if sparse.indices.data_type != onnx.TensorProto.INT64:
            places = onnx.numpy_helper.to_array(sparse.indices).astype("int64")
            sparse.indices.CopyFrom(onnx.numpy_helper.from_array(places, sparse.indices.name))
    for node in graph.node:
        for body in bodies(node):
            _widen_indices(body)


def probe_types(
    proto: onnx.ModelProto,
    weights_dir: Path | None,
    names: Sequence[str],
    where: str,
    libraries: Sequence[str] = (),
) -> dict[str, onnx.TypeProto]:
    """Return types, and known shapes, that ONNX Runtime infers for the values `names`."""
    found = _output_types(proto, weights_dir, (), names, where, libraries)
    # The runtime's interface reports [] for a scalar and for unknown rank alike.
    open_rank = [
        name for name, (text, dims) in found.items() if text.startswith("tensor") and not dims
    ]
    if open_rank:
        ranks = [onnx.helper.make_node("Shape", [name], [f"{name}/rank"]) for name in open_rank]
        asked = [f"{name}/rank" for name in open_rank]
        shapes = _output_types(proto, weights_dir, ranks, asked, where, libraries)
        for name in open_rank:
            if shapes[f"{name}/rank"][1] != [0]:
                found[name] = (found[name][0], None)
    types: dict[str, onnx.TypeProto] = {}
    for name, (text, dims) in found.items():
        try:
            types[name] = parse_type(text, dims)
        except ValueError as error:
            raise ModelError(
                f"its type cannot be read: {error}",
                where=f"{where}: value {name!r}",
                hint="install a newer hetsim",
            ) from error
    return types


def _output_types(
    proto: onnx.ModelProto,
    weights_dir: Path | None,
    nodes: Sequence[onnx.NodeProto],
    names: Sequence[str],
    where: str,
    libraries: Sequence[str],
) -> dict[str, tuple[str, list[int | str | None] | None]]:
    """Return types and shapes, in the runtime's form, of values made outputs of one session."""
    graph = proto.graph
    outputs = {value.name for value in graph.output}
    kept_nodes, kept_outputs = len(graph.node), len(graph.output)
    graph.node.extend(nodes)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    try:
        with _aside(proto, weights_dir) as (left, weights, _):
            session = open_session(left, weights, "none", where, libraries=libraries, runs=False)
            read = session.get_outputs()
            del session
    finally:
        del graph.node[kept_nodes:]
        del graph.output[kept_outputs:]
    wanted = set(names)
    return {value.name: (value.type, value.shape) for value in read if value.name in wanted}


def tree_nodes(nodes: Iterable[onnx.NodeProto]) -> int:
    """Return the number of tree nodes in the ensembles among `nodes`. O(nodes)."""
    return sum(
        len(attribute.ints)
        for node in nodes
        if node.op_type in ("TreeEnsembleClassifier", "TreeEnsembleRegressor")
        for attribute in node.attribute
        if attribute.name == "nodes_treeids"
    )


Kept = Mapping[int, onnx.TensorProto]
"""Constants moved out, by their offset in the file."""


@contextmanager
def _aside(
    proto: onnx.ModelProto, weights_dir: Path | None
) -> Iterator[tuple[onnx.ModelProto, Path | None, Kept]]:
    """Move the weights of a large model to a file: yield model, folder, and moved constants."""
    large = [
        position
        for position, tensor in enumerate(proto.graph.initializer)
        if weights_dir is None and tensor.HasField("raw_data") and bytes_of(tensor) >= LARGE_BYTES
    ]
    with ExitStack() as stack:
        left, folder = proto, weights_dir
        kept: Kept = {}
        if sum(bytes_of(proto.graph.initializer[at]) for at in large) >= PAYS_BYTES:
            # Without room for a file they stay in the model, which takes more memory.
            with suppress(OSError), ExitStack() as trial:
                made = trial.enter_context(scratch_folder())
                with (made / _ASIDE).open("wb") as file:
                    left, kept = externalise(proto, frozenset(large), file, _ASIDE)
                folder = made
                stack.push(trial.pop_all())
        yield left, folder, kept


def _give_back(made: onnx.ModelProto, kept: Kept) -> None:
    """Restore the constants that `made` still refers to, in place."""
    for tensor in tensors_of(made.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            name, dims = tensor.name, list(tensor.dims)
            # As a whole: access from Python would copy its contents again.
            tensor.CopyFrom(kept[reference_of(tensor)[1]])
            tensor.ClearField("doc_string")
            tensor.name = name
            del tensor.dims[:]
            tensor.dims.extend(dims)
