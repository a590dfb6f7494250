"""ONNX Runtime as the reader of models: versions, types, offline optimisation, its errors."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from hetsim.core.room import check_memory, no_room_in, out_of_room
from hetsim.core.scratch import scratch_folder
from hetsim.errors import ModelError, NoKernel
from hetsim.graph.reading.onnx_file import external_bytes, inline_bytes, tensors_of
from hetsim.graph.reading.onnx_types import bytes_of, parse_type
from hetsim.graph.reading.session import SILENT, limited, quiet_runtime
from hetsim.graph.reading.structure import bodies

LEVELS = ("none", "basic", "extended")
"""What ``canonical`` may be."""

_GIST_LENGTH = 300

_READ_LENGTH = 1000
"""Of a message what is looked at, at either end: names in it may be of any length."""

_OF_CPU_KERNELS = ["QDQSelectorActionTransformer", "SliceConcatToSpaceToDepthFusion"]
"""Optimisers that are left out: they turn quantized units, and slices side by side, into what CPU
kernels take, and every device makes its own of them."""

_MANY_BYTES = 2**30
"""Of weights in files. Above, large constants are not folded: what is folded is stored in the
model, which ends at 2 GiB, and is private to every process, where files are shared."""

_LARGE_CONSTANT_BYTES = 2**20
_ELSEWHERE = "set TMPDIR to a folder that is writable and has room, or use --canonical none"


_PACKED_BYTES_A_PAIR = 16
"""What can be packed while two constants are compared: 1 GB/s, and 16 ns."""

_PACKED_BYTES = 2**28
"""The most that is packed, for its memory."""


def check_versions(proto: onnx.ModelProto, where: str, libraries: Sequence[str] = ()) -> None:
    """Raise ModelError where the installed runtime cannot read the model's IR or opsets.

    `libraries` are those of custom operators, here and below.

    The runtime itself is asked, with a model of one node that claims the same versions.
    """
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
    """Return the model as ONNX Runtime's offline optimisation leaves it.

    What constants alone make is folded into it, unless it is large and `fold_large` is false.

    Weights that it did not touch stay the external references they were; those it made are
    inline. The file it writes lives in a temporary folder and is gone afterwards.
    """
    fold_large = fold_large and external_bytes(proto) <= _MANY_BYTES
    try:
        with (
            scratch_folder() as folder,
            _apart(proto, weights_dir) as (left, weights, aside),
        ):
            saved = folder / "optimised.onnx"
            try:
                open_session(
                    left, weights, level, where, saved, libraries, fold_large=fold_large, runs=False
                )
            except ModelError as error:
                # What it cannot write, it says as it says what is wrong with a model.
                short = no_room_in(folder, inline_bytes(left), where, hint=_ELSEWHERE)
                if short is None:
                    raise
                raise short from error
            made = _written(saved, inline_bytes(left), where)
    except OSError as error:
        raise out_of_room(error, where, path=tempfile.gettempdir(), hint=_ELSEWHERE) or ModelError(
            f"the optimised model cannot be written: {error.strerror or error}",
            where=where,
            hint=_ELSEWHERE,
        ) from error
    if aside is not None:
        aside.give_back(made)
    _widen_indices(made.graph)
    return made


def _written(saved: Path, nbytes: int, where: str) -> onnx.ModelProto:
    """Read what ONNX Runtime has written; it may have been cut short without a word."""
    try:
        return onnx.load(str(saved), load_external_data=False)
    except OSError:
        raise
    except Exception as error:  # protobuf's own type depends on its backend
        short = no_room_in(saved.parent, nbytes, where, hint=_ELSEWHERE)
        raise short or ModelError(
            "the optimised model is damaged", where=where, hint="use --canonical none"
        ) from error


@contextmanager
def _apart(
    proto: onnx.ModelProto, weights_dir: Path | None
) -> Iterator[tuple[onnx.ModelProto, Path | None, Aside | None]]:
    """Put the weights of a large model aside, where there is room for them.

    Yields the model as it is to be opened, where its weights are, and what was put aside. Weights
    that are in files are left there.
    """
    with ExitStack() as stack:
        aside = None
        if weights_dir is None and pays_to_put_aside(proto):
            # Without room for a file they stay in the model: it takes more memory.
            with suppress(OSError), ExitStack() as trial:
                aside = put_aside(proto, trial.enter_context(scratch_folder()))
                stack.push(trial.pop_all())
        if aside is None:
            yield proto, weights_dir, None
        else:
            yield aside.proto, aside.folder, aside


def _widen_indices(graph: onnx.GraphProto) -> None:
    """Give sparse constants indices of int64, as ONNX has them, in place.

    ONNX Runtime writes the narrowest integers that hold them, and reads both.
    """
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
    """Return the types that ONNX Runtime finds for the values `names`, shapes where it can.

    The values are made outputs without a type, and one session is built. With no names this
    checks that the runtime accepts the model as it is.
    """
    found = _output_types(proto, weights_dir, (), names, where, libraries)
    # The runtime's interface says [] for a scalar and for a value of unknown rank alike.
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
    """Type and shape, as the runtime puts them, of values made outputs for this one session."""
    graph = proto.graph
    outputs = {value.name for value in graph.output}
    kept_nodes, kept_outputs = len(graph.node), len(graph.output)
    graph.node.extend(nodes)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in outputs)
    try:
        with _apart(with_leaves(proto), weights_dir) as (left, weights, _):
            session = open_session(left, weights, "none", where, libraries=libraries, runs=False)
            read = session.get_outputs()
            del session
    finally:
        del graph.node[kept_nodes:]
        del graph.output[kept_outputs:]
    wanted = set(names)
    return {value.name: (value.type, value.shape) for value in read if value.name in wanted}


def open_session(
    proto: onnx.ModelProto,
    weights_dir: Path | None,
    level: str,
    where: str,
    saved: Path | None = None,
    libraries: Sequence[str] = (),
    profile: Path | None = None,
    fold_large: bool = True,
    runs: bool = True,
    most_bytes: int | None = None,
) -> Any:
    """Return a single-threaded session; its errors are ModelErrors of one line.

    `saved` is where the optimised model shall go, `profile` how the profile's path begins. With
    `runs` false nothing is run, and it is opened as what is quickest. `most_bytes` is what weights
    and values may take together; beyond, what it raises has ``OVER_LIMIT``.
    """
    ort = quiet_runtime()
    options = ort.SessionOptions()
    options.graph_optimization_level = {
        "none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
        "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
        "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    }[level]
    options.log_severity_level = SILENT
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    if weights_dir is not None:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(weights_dir)
        )
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    if saved is not None:
        options.optimized_model_filepath = str(saved)
        if not fold_large:
            options.add_session_config_entry(
                "optimization.constant_folding_max_output_size_in_bytes", str(_LARGE_CONSTANT_BYTES)
            )
    try:
        # A buffer that doubles as it is written to, and its copy.
        check_memory(4 * inline_bytes(proto))
        content = proto.SerializeToString()
    except Exception as error:  # protobuf's own type depends on its backend
        raise out_of_room(error, where) or ModelError(
            f"larger than 2 GiB once rewritten: {_one_line(str(error))}",
            where=where,
            hint="save it with its weights as external data",
        ) from error
    if runs or not _pays_to_pack(proto, len(content)):
        options.add_session_config_entry("session.disable_prepacking", "1")
    for library in libraries:
        try:
            options.register_custom_ops_library(library)
        except Exception as error:
            raise ModelError(
                f"no library of custom operators: {_one_line(str(error))}",
                where=library,
                hint=f"build it for ONNX Runtime {ort.__version__} on this machine",
            ) from error
    left_out = list(_OF_CPU_KERNELS)
    if not fold_large and _stores_text(proto.graph):
        # The limit of sizes does not see letters.
        left_out.append("ConstantFolding")
    try:
        with limited(options, most_bytes):
            return ort.InferenceSession(
                content,
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=left_out,
            )
    except Exception as error:  # onnxruntime's exceptions share no base class of their own
        raise out_of_room(error, where) or _translated(
            str(error), proto, where, f"ONNX Runtime {ort.__version__}"
        ) from error


def _stores_text(graph: onnx.GraphProto) -> bool:
    return any(tensor.data_type == onnx.TensorProto.STRING for tensor in graph.initializer) or any(
        any(map(_stores_text, bodies(node)))
        or (
            node.op_type == "Constant"
            and any(a.s or a.strings or a.t.data_type == a.t.STRING for a in node.attribute)
        )
        for node in graph.node
    )


def _pays_to_pack(proto: onnx.ModelProto, nbytes: int) -> bool:
    """Whether kernels that pack their weights are sooner made than kernels that do not.

    Packing copies all bytes. Without it ONNX Runtime looks through all constants for each one that
    it has fused away: with many small ones that takes longer.
    """
    count = len(proto.graph.initializer)
    if nbytes > min(_PACKED_BYTES, _PACKED_BYTES_A_PAIR * count**2):
        return False
    nbytes += external_bytes(proto)
    return nbytes <= min(_PACKED_BYTES, _PACKED_BYTES_A_PAIR * count**2)


def _translated(text: str, proto: onnx.ModelProto, where: str, runtime: str) -> ModelError:
    text = _short(_one_line(text))
    if match := re.search(r"IR version: (\d+), max supported IR version: (\d+)", text):
        has, most = match.groups()
        return ModelError(
            f"IR version {has}, and {runtime} reads at most {most}",
            where=where,
            hint=f"save the model with ir_version={most}, or install a newer onnxruntime",
        )
    if match := re.search(r"Opset (\d+) is under.*domain (\S+) is till opset (\d+)", text):
        has, domain, most = match.groups()
        return ModelError(
            f"opset {has} of domain {domain}, and {runtime} reads at most {most}",
            where=where,
            hint=f"export the model with opset {most}, or install a newer onnxruntime",
        )
    unknown = re.search(r"No Op registered for (\S+) with domain_version of (\d+)", text)
    if unknown:
        domain, op = _where_used(proto, unknown[1])
        return _unknown_op(proto, op, domain, where, f"opset {unknown[2]}", runtime)
    if match := re.search(r"Fatal error: (\S*):(\S+?)\(-?\d+\) is not a registered", text):
        return _unknown_op(proto, match[2], match[1], where, f"domain {match[1]!r}", runtime)
    if match := re.search(
        r'In Node, \("(.*?)", (\S+), .*No opset import for domain \'(.*?)\'', text
    ):
        return ModelError(
            f"op {match[2]!r} is of domain {match[3]!r}, of which the model imports no version",
            where=f"{where}: node {match[1]!r}",
            hint="export the model anew with that domain in opset_import",
        )
    if match := re.search(r"an implementation for (\S+)\((\d+)\) node with name '(.*)'", text):
        op, version, name = match.groups()
        return NoKernel(
            f"{runtime} has no CPU kernel for {op} of version {version} with these types",
            where=f"{where}: node {name!r}",
            hint="convert the model to a newer opset or to other types",
        )
    said = _without_preamble(text)
    if match := re.fullmatch(r'In Node, \("(.*?)", .*?\) : .* , Error (.*)', said):
        where, said = f"{where}: node {match[1]!r}", match[2]
    return ModelError(
        f"{runtime} refuses the model: {_cut(said)}",
        where=where,
        hint="check the model with onnx.checker, or export it anew",
    )


def gist(text: str) -> str:
    """Return on one line what a message of ONNX Runtime says."""
    return _cut(_without_preamble(_short(_one_line(text))))


def _without_preamble(text: str) -> str:
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : (\w+) : ", "", text)
    text = re.sub(r"^/\S+:\d+ .*?\w\(.*?\)( const)? (?=\S)", "", text)
    return text.removeprefix("This is an invalid model. ").rstrip(". ")


def _short(text: str) -> str:
    """The ends of what is long: expressions on it take more than linear time."""
    if len(text) <= 2 * _READ_LENGTH:
        return text
    return f"{text[:_READ_LENGTH]}...{text[-_READ_LENGTH:]}"


def _cut(text: str) -> str:
    return text if len(text) <= _GIST_LENGTH else text[: _GIST_LENGTH - 3] + "..."


def _unknown_op(
    proto: onnx.ModelProto, op: str, domain: str, where: str, scope: str, runtime: str
) -> ModelError:
    users = [n.name for n in proto.graph.node if n.op_type == op and n.domain == domain]
    place = f"node {users[0]!r}" if users else "inside a body or function"
    return ModelError(
        f"unknown op {op!r} in {scope}: {runtime} has no schema for it",
        where=f"{where}: {place}",
        hint="export the model with standard ops, add the op as a model-local function, or name "
        "its custom-op library or function body (--extension)",
    )


def _where_used(proto: onnx.ModelProto, op: str) -> tuple[str, str]:
    for node in proto.graph.node:
        if node.op_type == op:
            return node.domain, op
    return "", op


def _one_line(text: str) -> str:
    return " ".join(text.split())


LARGE_BYTES = 2**16
"""Of a constant that is put aside."""

PAYS_BYTES = 2**24
"""Of all of them together, from which on it pays to write a file."""

_FILE = "aside.bin"


@dataclass(frozen=True, slots=True)
class Aside:
    """A model without its large constants.

    Attributes
    ----------
    proto : onnx.ModelProto
        What is left; in the place of the large constants are references to a file.
    folder : Path
        Where the file is.
    kept : mapping of int to onnx.TensorProto
        The constants themselves, by their place in the file.
    """

    proto: onnx.ModelProto
    folder: Path
    kept: Mapping[int, onnx.TensorProto]

    def give_back(self, made: onnx.ModelProto) -> None:
        """Put the constants back that `made` of this model still refers to, in place."""
        for tensor in tensors_of(made.graph):
            if tensor.data_location != onnx.TensorProto.EXTERNAL:
                continue
            told = {entry.key: entry.value for entry in tensor.external_data}
            name, dims = tensor.name, list(tensor.dims)
            # As a whole: looked at from Python, its contents would be copied once more.
            tensor.CopyFrom(self.kept[int(told.get("offset") or 0)])
            tensor.ClearField("doc_string")
            tensor.name = name
            del tensor.dims[:]
            tensor.dims.extend(dims)


def pays_to_put_aside(proto: onnx.ModelProto) -> bool:
    """Whether its large constants are so many bytes that a file of them is worth writing."""
    return sum(bytes_of(proto.graph.initializer[at]) for at in _large(proto)) >= PAYS_BYTES


def put_aside(proto: onnx.ModelProto, folder: Path) -> Aside:
    """Write the large constants of `proto` to a file in `folder`. Raises OSError.

    `proto` stays as it is. It must have no constants in files already.
    """
    large = frozenset(_large(proto))
    light = onnx.ModelProto()
    copy_but(proto, light, but="graph")
    copy_but(proto.graph, light.graph, but="initializer")
    kept: dict[int, onnx.TensorProto] = {}
    place = 0
    with (folder / _FILE).open("wb") as file:
        for position, tensor in enumerate(proto.graph.initializer):
            if position not in large:
                light.graph.initializer.append(tensor)
                continue
            content = tensor.raw_data
            if len(content) != bytes_of(tensor):
                # For ONNX Runtime to complain about.
                light.graph.initializer.append(tensor)
                continue
            length = file.write(content)
            reference = light.graph.initializer.add(
                name=tensor.name, data_type=tensor.data_type, dims=tensor.dims
            )
            reference.data_location = onnx.TensorProto.EXTERNAL
            told = {"location": _FILE, "offset": place, "length": length}
            for key, value in told.items():
                reference.external_data.add(key=key, value=str(value))
            kept[place] = tensor
            place += length
    return Aside(light, folder, kept)


def _large(proto: onnx.ModelProto) -> Iterator[int]:
    for position, tensor in enumerate(proto.graph.initializer):
        if tensor.HasField("raw_data") and bytes_of(tensor) >= LARGE_BYTES:
            yield position


def copy_but(source: Any, target: Any, but: str) -> None:
    """Copy the fields of a message, all but one."""
    for field, value in source.ListFields():
        if field.name == but:
            continue
        if field.type == field.TYPE_MESSAGE and not hasattr(value, "extend"):
            getattr(target, field.name).CopyFrom(value)
        elif hasattr(value, "extend"):
            getattr(target, field.name).extend(value)
        else:
            setattr(target, field.name, value)


MANY_TREE_NODES = 2**18
"""Tree nodes from which on it takes longer than a copy of the rest of the model."""

_ENSEMBLES = frozenset({"TreeEnsembleClassifier", "TreeEnsembleRegressor"})
_LISTS = ("nodes_", "target_", "class_")
_ONE = np.zeros(1, np.int64)


def tree_nodes(nodes: Iterable[onnx.NodeProto]) -> int:
    """Tree nodes of the ensembles among `nodes` that ``with_leaves`` knows. O(nodes)."""
    return sum(
        len(attribute.ints)
        for node in nodes
        if node.op_type in _ENSEMBLES
        for attribute in node.attribute
        if attribute.name == "nodes_treeids"
    )


def with_leaves(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose large ensembles are of one leaf each; `proto` itself where it has none.

    Lists that are not of one length stay, for ONNX Runtime to complain about.
    """
    if tree_nodes(proto.graph.node) < MANY_TREE_NODES:
        return proto
    light = onnx.ModelProto()
    copy_but(proto, light, but="graph")
    copy_but(proto.graph, light.graph, but="node")
    for node in proto.graph.node:
        if tree_nodes([node]) and _is_regular(node):
            copy_but(node, light.graph.node.add(), but="attribute")
            light.graph.node[-1].attribute.extend(_leaf(node))
        else:
            light.graph.node.append(node)
    return light


def _is_regular(node: onnx.NodeProto) -> bool:
    lengths: dict[str, set[int]] = {}
    for attribute in node.attribute:
        kind = attribute.name.partition("_")[0] + "_"
        if kind in _LISTS:
            if attribute.HasField("t"):
                return False
            length = max(len(attribute.ints), len(attribute.floats), len(attribute.strings))
            lengths.setdefault(kind, set()).add(length)
    return all(len(found) == 1 for found in lengths.values())


def _leaf(node: onnx.NodeProto) -> Iterator[onnx.AttributeProto]:
    """Attributes of one leaf, with a weight for each target or class that the ensemble has."""
    columns = {
        attribute.name.removesuffix("ids"): np.unique(np.fromiter(attribute.ints, np.int64))
        for attribute in node.attribute
        if attribute.name in ("target_ids", "class_ids")
    }
    for attribute in node.attribute:
        if not attribute.name.startswith(_LISTS):
            yield attribute
            continue
        ids = columns.get(attribute.name.partition("_")[0] + "_", _ONE)
        leaf = onnx.AttributeProto(name=attribute.name, type=attribute.type)
        if attribute.name in ("target_ids", "class_ids"):
            leaf.ints.extend(ids.tolist())
        else:
            leaf.ints.extend([0] * len(ids) * bool(attribute.ints))
        leaf.floats.extend([0.0] * len(ids) * bool(attribute.floats))
        leaf.strings.extend([b"LEAF"] * bool(attribute.strings))
        yield leaf
