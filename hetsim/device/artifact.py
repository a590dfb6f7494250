"""Compiled subgraph as one ONNX file, with its weights and the device it is compiled for.

The model's metadata hold device, architecture, precision and the versions that wrote it, and a
SHA-256 of all else. The digest detects damage, not origin: input is checked like any model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import onnx

from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from hetsim.errors import ArtifactError, ExecutionError, HetsimError
from hetsim.graph.reading.onnx_file import from_memory
from hetsim.graph.reading.onnx_types import OWN_DOMAINS
from hetsim.graph.reading.session import quiet_runtime
from hetsim.graph.reading.structure import calls, check_unfolding, key_of
from hetsim.version import __version__

Opener = Callable[[bytes, str | None, Sequence[str]], "CompiledSubgraph"]

GRAPH_PRECISION = "graph"
"""Precision of a device that computes in the types of the graph."""

_DIGEST = "hetsim.sha256"
_LIMIT_BYTES = 2**31 - 1
_CHUNK_BYTES = 2**22
_AGAIN = "compile the subgraph again, or copy the file again"


@dataclass(frozen=True, slots=True)
class Identity:
    """Device and versions that a subgraph is compiled for."""

    device: str
    architecture: str
    precision: str = GRAPH_PRECISION

    def stated(self) -> dict[str, str]:
        """Return the metadata of the file, by key, including versions."""
        versions = {"hetsim": __version__, "onnxruntime": onnxruntime_version()}
        return {f"hetsim.{key}": text for key, text in (asdict(self) | versions).items()}


def precision_name(rounding: Mapping[str, str]) -> str:
    """Return the name of an arithmetic, e.g. ``float32:float16``; ``graph`` for the graph's own."""
    pairs = (f"{source}:{target}" for source, target in sorted(rounding.items()))
    return ",".join(pairs) or GRAPH_PRECISION


def onnxruntime_version() -> str:
    """Return the version of ONNX Runtime in this process."""
    version: str = quiet_runtime().__version__
    return version


def export(
    stream: BinaryIO,
    proto: onnx.ModelProto,
    *,
    weights_dir: Path | None,
    identity: Identity,
    name: str,
) -> None:
    """Write a subgraph with all its weights to `stream`."""
    functions = {key_of(function) for function in proto.functions}
    inner = (node for function in proto.functions for node in function.node)
    for called in calls((*proto.graph.node, *inner)):
        if called not in functions and called[0] not in OWN_DOMAINS:
            raise ArtifactError(
                f"cannot be exported: operator '{called[1]}' of domain '{called[0]}' is not one "
                "of ONNX Runtime's own",
                where=name,
            )
    whole = onnx.ModelProto()
    whole.CopyFrom(proto)
    try:
        if weights_dir is not None:
            onnx.external_data_helper.load_external_data_for_model(whole, str(weights_dir))
        del whole.metadata_props[:]
        for key, text in identity.stated().items():
            whole.metadata_props.add(key=key, value=text)
        digest = hashlib.sha256(whole.SerializeToString(deterministic=True)).hexdigest()
        whole.metadata_props.add(key=_DIGEST, value=digest)
        content = whole.SerializeToString(deterministic=True)
    except Exception as error:  # onnx's and protobuf's own types have no base in common
        raise ArtifactError(
            f"cannot be exported: {' '.join(str(error).split())}",
            where=name,
            hint="compile the plan to a folder if its weights are larger than 2 GiB",
        ) from error
    stream.write(content)


def import_compiled(
    stream: BinaryIO,
    *,
    identity: Identity,
    where: str = "compiled subgraph",
    opener: Opener | None = None,
) -> CompiledSubgraph:
    """Return the subgraph written by ``export``, after checking digest, device, versions and graph.

    `where`: the file, for messages. `opener`: ``Device.open``; absent, ONNX Runtime on the CPU.
    Raises ArtifactError if the file is damaged, for another device or versions, or rejected.
    """
    proto = _whole(_content(stream, where), where)
    stated = {prop.key: prop.value for prop in proto.metadata_props}
    for key, wanted in identity.stated().items():
        if stated.get(key) != wanted:
            raise ArtifactError(
                f"compiled for {key.removeprefix('hetsim.')} '{stated.get(key)}', but this is "
                f"'{wanted}'",
                where=where,
                hint="compile the subgraph again for this device, with these versions",
            )
    try:
        check_unfolding(
            {key_of(function): calls(function.node) for function in proto.functions},
            calls(proto.graph.node),
        )
        content = from_memory(proto, where, None).proto.SerializeToString()
        return (opener or CompiledSubgraph)(content, None, [out.name for out in proto.graph.output])
    except ValueError as error:
        raise ArtifactError(str(error), where=where, hint=_AGAIN) from error
    except (ArtifactError, ExecutionError) as error:
        raise ArtifactError(error.what, where=where, hint=error.hint) from error
    except HetsimError as error:
        raise ArtifactError(error.what, where=where, hint=_AGAIN) from error


def _content(stream: BinaryIO, where: str) -> bytes:
    """Return a whole stream, read in pieces: memory only grows with its content."""
    parts, left = [], _LIMIT_BYTES + 1
    try:
        while left and (chunk := stream.read(min(left, _CHUNK_BYTES))):
            parts.append(chunk)
            left -= len(chunk)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArtifactError(f"cannot be read: {reason}", where=where) from error
    if not left:
        raise ArtifactError(
            ("larger than 2 GiB, the limit of an ONNX file"), where=where, hint=_AGAIN
        )
    return b"".join(parts)


def _whole(content: bytes, where: str) -> onnx.ModelProto:
    """Return the model without the digest, after checking it."""
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(content)
        exact = proto.SerializeToString(deterministic=True) == content
        last = proto.metadata_props.pop()
        body = proto.SerializeToString(deterministic=True)
    except Exception as error:  # protobuf's own type depends on its backend
        raise ArtifactError(
            "not a compiled subgraph, or truncated",
            where=where,
            hint="give a file that CompiledSubgraph.export wrote",
        ) from error
    if not exact or (last.key, last.value) != (_DIGEST, hashlib.sha256(body).hexdigest()):
        raise ArtifactError(
            "damaged: its content does not match its SHA-256", where=where, hint=_AGAIN
        )
    return proto
