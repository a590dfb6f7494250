"""What a compiled subgraph's file says of itself, and what its reader expects of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetsim.device.artifact.layout import canonical_json, parse_canonical_json
from hetsim.device.artifact.values import ValueSpec, first_difference, parse_value
from hetsim.errors import ArtifactError
from hetsim.graph.reading.quiet_runtime import quiet_runtime
from hetsim.version import __version__

SCHEMA = "hetsim-subgraph/1"
GRAPH_PRECISION = "graph"
"""The precision of a device that computes in the types of the graph."""

_TEXTS = ("schema", "name", "device", "architecture", "precision", "hetsim", "onnxruntime")


@dataclass(frozen=True, slots=True)
class Identity:
    """For whom a subgraph was compiled.

    Attributes
    ----------
    device : str
        Name in the platform, e.g. ``npu``.
    architecture : str
        The device's property ``DEVICE_ARCHITECTURE``.
    precision : str
        Inference precision: ``graph``, or what ``precision_name`` gives.
    """

    device: str
    architecture: str
    precision: str = GRAPH_PRECISION


@dataclass(frozen=True, slots=True)
class Expected:
    """What a file has to be for the one who opens it.

    Attributes
    ----------
    identity : Identity
    inputs, outputs : sequence of ValueSpec, or None
        None accepts any: the file's own are those of its graph.
    """

    identity: Identity
    inputs: Sequence[ValueSpec] | None = None
    outputs: Sequence[ValueSpec] | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of its subgraph.

    Attributes
    ----------
    name : str
        For messages.
    identity : Identity
    hetsim, onnxruntime : str
        Versions that wrote it. It is opened by the same ones alone: kernels differ.
    inputs, outputs : tuple of ValueSpec
    """

    name: str
    identity: Identity
    hetsim: str
    onnxruntime: str
    inputs: tuple[ValueSpec, ...]
    outputs: tuple[ValueSpec, ...]

    def to_json(self) -> bytes:
        """Return the header as the file has it."""
        record: dict[str, Any] = {
            "schema": SCHEMA,
            "name": self.name,
            "device": self.identity.device,
            "architecture": self.identity.architecture,
            "precision": self.identity.precision,
            "hetsim": self.hetsim,
            "onnxruntime": self.onnxruntime,
            "inputs": [value.record() for value in self.inputs],
            "outputs": [value.record() for value in self.outputs],
        }
        return canonical_json(record)


def precision_name(rounding: Mapping[str, str]) -> str:
    """Return the name of an arithmetic, e.g. ``float32:float16``; ``graph`` for none."""
    pairs = (f"{source}:{target}" for source, target in sorted(rounding.items()))
    return ",".join(pairs) or GRAPH_PRECISION


def onnxruntime_version() -> str:
    """Return the version of ONNX Runtime in this process."""
    version: str = quiet_runtime().__version__
    return version


def parse_header(about: bytes, where: str) -> Header:
    """Undo ``Header.to_json``. Raises ArtifactError where the bytes are anything else."""
    record = parse_canonical_json(about, where)
    try:
        if set(record) != {*_TEXTS, "inputs", "outputs"}:
            raise ValueError("it lacks fields, or has others")
        if not all(isinstance(record[key], str) for key in _TEXTS) or record["schema"] != SCHEMA:
            raise ValueError(f"it is not of schema {SCHEMA}")
        values: list[tuple[ValueSpec, ...]] = []
        for key in ("inputs", "outputs"):
            if not isinstance(record[key], list):
                raise ValueError(f"its {key} are no list")
            values.append(tuple(parse_value(entry) for entry in record[key]))
    except ValueError as error:
        raise ArtifactError(f"its header is broken: {error}", where=where) from error
    identity = Identity(record["device"], record["architecture"], record["precision"])
    return Header(record["name"], identity, record["hetsim"], record["onnxruntime"], *values)


def check_header(header: Header, expected: Expected, where: str) -> None:
    """Raise ArtifactError, naming what differs, where a file is not what its reader expects."""
    found, wanted = header.identity, expected.identity
    again = "compile the plan again"
    for what, have, want, hint in (
        ("hetsim", header.hetsim, __version__, "with this hetsim, or install that one"),
        ("onnxruntime", header.onnxruntime, onnxruntime_version(), "or install that version"),
        ("device", found.device, wanted.device, "for this device, or give the file to that one"),
        ("architecture", found.architecture, wanted.architecture, "for this device"),
        ("precision", found.precision, wanted.precision, "with this precision"),
    ):
        if have != want:
            raise ArtifactError(
                f"compiled for {what} '{have}', and this is '{want}'",
                where=where,
                hint=f"{again} {hint}",
            )
    for what, given, due in (
        ("input", header.inputs, expected.inputs),
        ("output", header.outputs, expected.outputs),
    ):
        told = None if due is None else first_difference(given, due)
        if told is not None:
            raise ArtifactError(
                f"compiled for other {what}s: it has {told}",
                where=where,
                hint=f"{again} with these shapes",
            )
