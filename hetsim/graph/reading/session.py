"""ONNX Runtime sessions: silent, single-threaded, of limited memory, with one-line errors."""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx

from hetsim.core.process import ending_left_to_others
from hetsim.core.room import check_memory, out_of_room
from hetsim.errors import ModelError, NoKernel
from hetsim.graph.reading.onnx_file import weight_bytes
from hetsim.graph.reading.structure import bodies

SILENT = 4
"""Log level of ONNX Runtime: only fatal messages."""

OVER_LIMIT = "is smaller than requested bytes of"
"""Text in errors of a session that exceeds its memory limit."""

LEVELS = ("none", "basic", "extended")
"""Values of ``canonical``."""

_OF_CPU_KERNELS = ["QDQSelectorActionTransformer", "SliceConcatToSpaceToDepthFusion"]
"""Optimisers that are disabled: they convert quantized units, and parallel slices, to CPU kernels,
while every device has its own form of them."""

_LARGE_CONSTANT_BYTES = 2**20
_GIST_LENGTH = 300
_READ_LENGTH = 1000
"""Maximum length of a message that is examined, at either end, as names may be of any length."""

_PACKED_BYTES_A_PAIR = 16
"""Bytes that can be packed while two constants are compared: 1 GB/s, and 16 ns."""

_PACKED_BYTES = 2**28
"""Maximum bytes that are packed, for their memory."""

_SUFFIX = "_kernel_time"

_registering = threading.Lock()


@functools.cache
def quiet_runtime() -> Any:
    """Return onnxruntime without messages on stderr outside sessions; errors are exceptions."""
    # It starts a thread, which would take signals that the main thread holds back.
    with ending_left_to_others():
        import onnxruntime

    onnxruntime.set_default_logger_severity(SILENT)
    return onnxruntime


def session_options(weights_dir: str | Path | None) -> Any:
    """Return options of a silent session, with external weights below `weights_dir`."""
    options = quiet_runtime().SessionOptions()
    options.log_severity_level = SILENT
    if weights_dir is not None:
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", str(weights_dir)
        )
    return options


def kernel_events(session: Any) -> list[tuple[str, dict[str, Any]]]:
    """Stop profiling `session`; return its kernel events by node, in execution order."""
    events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return [
        (event["name"].removesuffix(_SUFFIX), event)
        for event in events
        if event.get("cat") == "Node" and event.get("name", "").endswith(_SUFFIX)
    ]


@contextmanager
def _limited(options: Any, most_bytes: int | None) -> Iterator[None]:
    """Limit the memory of a session opened within the context."""
    if most_bytes is None:
        yield
        return
    options.add_session_config_entry("session.use_env_allocators", "1")
    # Process-wide objects belong to the session opened next, permanently.
    with _registering:
        _register(most_bytes)
        try:
            yield
        finally:
            _register(2**20)


def _register(most_bytes: int) -> None:
    ort = quiet_runtime()
    unset = (
        "initial_chunk_size_bytes", "max_dead_bytes_per_chunk", "initial_growth_chunk_size_bytes"
    )  # fmt: skip
    sizes = {"max_mem": most_bytes, "arena_extend_strategy": 1, **dict.fromkeys(unset, -1)}
    place = ort.OrtMemoryInfo(
        "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
    )
    ort.create_and_register_allocator(place, ort.OrtArenaCfg(sizes))


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

    `saved` is the path of the optimised model, `profile` a path prefix; without `runs` it opens in
    the fastest way. Above `most_bytes` for weights and values, errors contain ``OVER_LIMIT``.
    """
    ort = quiet_runtime()
    options = session_options(weights_dir)
    options.graph_optimization_level = {
        "none": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
        "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
        "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    }[level]
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
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
        check_memory(4 * weight_bytes(proto, external=False))
        content = proto.SerializeToString()
    except Exception as error:  # protobuf's own type depends on its backend
        raise out_of_room(error, where) or ModelError(
            f"larger than 2 GiB after rewriting: {_one_line(error)}",
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
                f"not a library of custom operators: {_one_line(error)}",
                where=library,
                hint=f"build it for ONNX Runtime {ort.__version__} on this machine",
            ) from error
    left_out = list(_OF_CPU_KERNELS)
    if not fold_large and _stores_text(proto.graph):
        # The limit of sizes does not cover letters.
        left_out.append("ConstantFolding")
    try:
        with _limited(options, most_bytes):
            return ort.InferenceSession(
                content,
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=left_out,
            )
    except Exception as error:  # onnxruntime's exceptions have no common base class
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
    """Return whether copying all weights is faster than ONNX Runtime's comparison of all pairs."""
    count = len(proto.graph.initializer)
    if nbytes > min(_PACKED_BYTES, _PACKED_BYTES_A_PAIR * count**2):
        return False
    nbytes += weight_bytes(proto, external=True)
    return nbytes <= min(_PACKED_BYTES, _PACKED_BYTES_A_PAIR * count**2)


_SAID = (
    (
        r"IR version: (?P<has>\d+), max supported IR version: (?P<most>\d+)",
        "IR version {has}, and {runtime} reads at most {most}",
        "save the model with ir_version={most}, or install a newer onnxruntime",
    ),
    (
        r"Opset (?P<has>\d+) is under.*domain (?P<domain>\S+) is till opset (?P<most>\d+)",
        "opset {has} of domain {domain}, and {runtime} reads at most {most}",
        "export the model with opset {most}, or install a newer onnxruntime",
    ),
    (
        r'In Node, \("(?P<node>.*?)", (?P<op>\S+), .*No opset import for domain '
        r"'(?P<domain>.*?)'",
        "op {op!r} is of domain {domain!r}, of which the model imports no version",
        "export the model again with that domain in opset_import",
    ),
)
"""ONNX Runtime messages about a model, hetsim's messages for these, and hints."""


def _translated(text: str, proto: onnx.ModelProto, where: str, runtime: str) -> ModelError:
    text = _short(text)
    if match := re.search(r"No Op registered for (\S+) with domain_version of (\d+)", text):
        used = (node.domain for node in proto.graph.node if node.op_type == match[1])
        return _unknown_op(proto, match[1], next(used, ""), where, f"opset {match[2]}", runtime)
    if match := re.search(r"Fatal error: (\S*):(\S+?)\(-?\d+\) is not a registered", text):
        return _unknown_op(proto, match[2], match[1], where, f"domain {match[1]!r}", runtime)
    for pattern, what, hint in _SAID:
        if match := re.search(pattern, text):
            found = match.groupdict()
            place = f"{where}: node {found['node']!r}" if "node" in found else where
            told = {**found, "runtime": runtime}
            return ModelError(what.format(**told), where=place, hint=hint.format(**told))
    if match := re.search(
        r"an implementation for (\S+)\((\d+)\) node with name '(.*)'"
        r"|find kernel for (\S+)\((\d+)\) \(node:'(.*?)'",
        text,
    ):
        op, version, name = match.groups()[:3] if match[1] else match.groups()[3:]
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
        hint="check the model with onnx.checker, or export it again",
    )


def gist(text: str) -> str:
    """Return the core of an ONNX Runtime error message, on one line."""
    return _cut(_without_preamble(_short(text)))


def _without_preamble(text: str) -> str:
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : (\w+) : ", "", text)
    text = text.removeprefix("Exception during initialization: ")
    text = re.sub(r"^/\S+:\d+ .*?\w\(.*?\)(>| const)? (?=\S)", "", text)
    return text.removeprefix("This is an invalid model. ").rstrip(". ")


def _one_line(said: object) -> str:
    return " ".join(str(said).split())


def _short(text: str) -> str:
    """Return one line, with only the ends of long text, as regular expressions are superlinear."""
    text = _one_line(text)
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
