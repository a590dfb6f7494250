"""Custom operators that a model may use: function bodies, and onnxruntime custom-op libraries."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from hetsim.core import checks
from hetsim.core.files import no_such_file, read_regular
from hetsim.errors import ModelError
from hetsim.graph.reading.onnx_file import read_onnx
from hetsim.graph.reading.onnx_types import OWN_DOMAINS
from hetsim.graph.reading.structure import FunctionKey, calls, check_unfolding, key_of

_ONNX = ".onnx"
_LIBRARY_LIMIT_BYTES = 2**31


@dataclass(frozen=True, slots=True)
class Extension:
    """Operators outside ONNX and ONNX Runtime; see ``load_extension``.

    `functions` are serialised ``onnx.FunctionProto``: the operators themselves, or descriptions of
    the kernels in the `shared_library` (absolute path), for shapes and costs. `sha256` is that of
    the files, `source` as given.
    """

    source: str
    functions: tuple[bytes, ...] = field(repr=False)
    shared_library: str | None
    sha256: str


@dataclass(frozen=True, slots=True)
class Custom:
    """Extensions of one model, and functions that describe operators of its `libraries`."""

    bodies: Mapping[FunctionKey, onnx.FunctionProto] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()


NONE = Custom()


def names_library(source: str) -> bool:
    """Return whether an extension of ``load_extension`` includes native code."""
    return not source.partition("=")[0].endswith(_ONNX)


@checks.takes(
    source=checks.either(checks.path, checks.instance("hetsim.graph.reading.extension:Extension"))
)
def load_extension(source: str | os.PathLike[str] | Extension) -> Extension:
    """Return custom operators loaded from files.

    ``BODIES.onnx`` is a model with functions, each the body of an operator; ``LIBRARY`` a shared
    library of onnxruntime custom operators with kernels; ``LIBRARY=BODIES.onnx`` such a library,
    with functions that describe its operators, for shapes and costs. Raises ModelError if a file is
    missing or invalid.
    """
    if isinstance(source, Extension):
        return source
    text = os.fspath(source)
    first, _, second = text.partition("=")
    library, bodies = (None, first) if first.endswith(_ONNX) else (first, second)
    if (library is None and second) or (bodies and not bodies.endswith(_ONNX)):
        raise ModelError(
            "no custom operators are given",
            where=text,
            hint="give BODIES.onnx, LIBRARY or LIBRARY=BODIES.onnx",
        )
    digest = hashlib.sha256()
    if library is not None:
        digest.update(_content(Path(library), text))
    functions: tuple[bytes, ...] = ()
    if bodies:
        functions = _functions(bodies)
        for function in functions:
            digest.update(function)
    path = None if library is None else str(Path(library).resolve())
    return Extension(text, functions, path, digest.hexdigest())


def _content(path: Path, where: str) -> bytes:
    try:
        return read_regular(path, _LIBRARY_LIMIT_BYTES)
    except FileNotFoundError:
        raise no_such_file(ModelError, path, where) from None
    except (OSError, ValueError) as error:
        raise ModelError(
            f"cannot be read: {getattr(error, 'strerror', None) or error}",
            where=where,
            hint="give the path of an onnxruntime custom-op library",
        ) from error


def _functions(path: str) -> tuple[bytes, ...]:
    functions = read_onnx(Path(path)).proto.functions
    if not functions:
        raise ModelError(
            "it has no function",
            where=path,
            hint=("save a model that defines the ops as functions"),
        )
    return tuple(function.SerializeToString(deterministic=True) for function in functions)


def extend(proto: onnx.ModelProto, extensions: Sequence[Extension]) -> Custom:
    """Add missing function bodies called by `proto`, in place; return the others.

    The model's own take precedence, then the first extension's. ValueError if functions call
    themselves, or unfold to too many nodes.
    """
    if not extensions:
        _check_functions(proto, {})
        return NONE
    own = {key_of(function) for function in proto.functions}
    offered: dict[FunctionKey, onnx.FunctionProto] = {}
    described: dict[FunctionKey, onnx.FunctionProto] = {}
    for extension in extensions:
        into = offered if extension.shared_library is None else described
        for content in extension.functions:
            function = onnx.FunctionProto.FromString(content)
            into.setdefault(key_of(function), function)
    pending = [*calls(proto.graph.node)]
    for function in proto.functions:
        pending.extend(calls(function.node))
    # Functions called by an added one are appended to the list being processed.
    for key in pending:
        if key in offered and key not in own:
            own.add(key)
            proto.functions.append(offered[key])
            pending.extend(calls(offered[key].node))
    imported = {entry.domain for entry in proto.opset_import}
    for domain in sorted({domain for domain, _, _ in own} - imported):
        proto.opset_import.add(domain=domain, version=1)
    bodies = {key: function for key, function in described.items() if key not in own}
    _check_functions(proto, bodies)
    return Custom(bodies, libraries_of(extensions))


def _check_functions(
    proto: onnx.ModelProto, described: Mapping[FunctionKey, onnx.FunctionProto]
) -> None:
    known = {**described, **{key_of(function): function for function in proto.functions}}
    if known:
        called = {key: calls(function.node) for key, function in known.items()}
        check_unfolding(called, calls(proto.graph.node))


def libraries_of(extensions: Iterable[Extension]) -> tuple[str, ...]:
    """Return the distinct paths of the libraries."""
    paths = (extension.shared_library for extension in extensions)
    return tuple(dict.fromkeys(path for path in paths if path is not None))


def is_custom(node: onnx.NodeProto, functions: Collection[FunctionKey]) -> bool:
    """Return whether the operator of `node` is in neither ONNX Runtime nor `functions`."""
    key = (node.domain, node.op_type, node.overload)
    return node.domain not in OWN_DOMAINS and key not in functions
