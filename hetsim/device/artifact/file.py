"""A compiled subgraph's file written, read back whole, and opened."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from hetsim.device.artifact.header import (
    Expected,
    Header,
    Identity,
    check_header,
    onnxruntime_version,
    parse_header,
)
from hetsim.device.artifact.layout import (
    CheckedReader,
    DigestingWriter,
    Layout,
    kept_in_folder,
)
from hetsim.device.artifact.values import describe, first_difference
from hetsim.errors import ArtifactError, ExecutionError
from hetsim.version import __version__

if TYPE_CHECKING:
    import onnx

    from hetsim.device.artifact.onnx_part import SharedWeights
    from hetsim.device.artifact.trial import Trial
    from hetsim.device.kernels.onnx_runtime import CompiledSubgraph

Opener = Callable[[bytes, str | None, Sequence[str]], "CompiledSubgraph"]


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes
    ----------
    header : Header
    sha256 : str
        Digest that the file ends with.
    nbytes : int
        Size of the file.
    """

    header: Header
    sha256: str
    nbytes: int


@dataclass(eq=False)
class Artifact:
    """A file that was read, is whole, and is meant for the one who read it.

    Close it, or use it in a ``with`` statement, once it was opened: its weights lie in a
    folder of temporary files until then. What was opened goes on without it.

    Attributes
    ----------
    header : Header
    proto : onnx.ModelProto
        The subgraph, checked; its large weights are references to a file ``weights``.
    layout : Layout
        Where the parts lie in the file.
    sha256 : str
        Digest that the file ends with.
    folder : Path or None
        Where that file of weights is; None where none was kept.
    where : str
        The file, for messages.
    lasting : ExitStack
        What ends with it: that folder.
    """

    header: Header
    proto: onnx.ModelProto = field(repr=False)
    layout: Layout
    sha256: str
    folder: Path | None = None
    where: str = "compiled subgraph"
    lasting: ExitStack = field(default_factory=ExitStack, repr=False)

    def __post_init__(self) -> None:
        weakref.finalize(self, self.lasting.close)

    def open(self, trial: Trial | None = None, opener: Opener | None = None) -> CompiledSubgraph:
        """Make it ready to run: in a child process first, and then in this one.

        Weights are mapped, not read into memory.

        Parameters
        ----------
        trial : Trial, optional
            The child, where several files are opened; absent, one is started for this file.
        opener : callable, optional
            Opens it in this process, given the model, the folder of its weights and the
            names of its outputs: ``Device.open``. Absent, ONNX Runtime on the CPU.

        Raises
        ------
        ArtifactError
            Where ONNX Runtime refuses it, breaks over it, or finds other inputs in it.
        ExecutionError
            Where no child can be started.
        """
        from hetsim.device.artifact.trial import Trial
        from hetsim.device.kernels.onnx_runtime import CompiledSubgraph

        if self.folder is None and self.layout.weights:
            raise AssertionError("it was read without its weights")
        outputs = [value.name for value in self.header.outputs]
        folder = None if self.folder is None else str(self.folder)
        content = self.proto.SerializeToString()
        with Trial() if trial is None else nullcontext(trial) as first:
            first.check(content, folder, outputs, self.layout.weights, self.where)
        try:
            compiled = (opener or CompiledSubgraph)(content, folder, outputs)
        except ExecutionError as error:
            raise ArtifactError(error.what, where=self.where, hint=error.hint) from error
        if compiled.input_names != tuple(value.name for value in self.header.inputs):
            raise ArtifactError(
                f"ONNX Runtime finds the inputs {compiled.input_names} in it", where=self.where
            )
        return compiled

    def close(self) -> None:
        """Remove its temporary files. May be called twice."""
        self.lasting.close()

    def __enter__(self) -> Artifact:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def export(
    stream: BinaryIO,
    proto: onnx.ModelProto,
    *,
    weights_dir: Path | None,
    identity: Identity,
    name: str,
    shared: SharedWeights | None = None,
) -> Exported:
    """Write a subgraph to `stream`, and say what was written.

    Parameters
    ----------
    stream : BinaryIO
        Need not be seekable.
    proto : onnx.ModelProto
        A model of its own, as ``extract.extract`` gives it; not changed. All its outputs count.
    weights_dir : Path or None
        Folder that its external data is relative to.
    identity : Identity
    name : str
        For messages.
    shared : SharedWeights, optional
        The file that its large weights go to; it cannot be opened without that then.

    Raises
    ------
    ArtifactError
        Where it could not be opened again: an operator from elsewhere, a value without a
        type, more than 2 GiB without its large weights; or where its weights cannot be read.
    OSError
        What the stream raises.

    Complexity: linear in the subgraph; one weight is in memory at a time.
    """
    from hetsim.device.artifact.onnx_check import check_structure
    from hetsim.device.artifact.onnx_part import pack, serialised

    try:
        packed = pack(proto, weights_dir, shared)
        check_structure(
            packed.proto, packed.weights_bytes, None if shared is None else shared.nbytes
        )
        graph = packed.proto.graph
        header = Header(
            name,
            identity,
            __version__,
            onnxruntime_version(),
            describe(graph.input),
            describe(graph.output),
        )
    except ValueError as error:
        raise ArtifactError(f"cannot be exported: {error}", where=name) from error
    about = header.to_json()
    content = serialised(packed.proto, name)
    layout = Layout(len(about), len(content), packed.weights_bytes)
    writer = DigestingWriter(stream)
    for part in (layout.prefix(), about, content, bytes(layout.padding)):
        writer.write(part)
    packed.write_weights(writer.write)
    return Exported(header, writer.finish(), layout.total)


def read_artifact(
    stream: BinaryIO,
    *,
    expected: Expected,
    where: str = "compiled subgraph",
    shared_bytes: int | None = None,
) -> Artifact:
    """Read what ``export`` wrote, and check all of it; nothing is run.

    In this order: format and sizes, digest, device and versions, inputs and outputs, the
    graph. Memory holds the graph and a piece of the weights at a time.

    Parameters
    ----------
    stream : BinaryIO
        Need not be seekable; it has to end where the file does.
    expected : Expected
    where : str
        The file, for messages.
    shared_bytes : int, optional
        Size of the file of weights that it shares with others, where there is one: then it
        need not have weights of its own, and whoever reads it opens it with that file.

    Raises
    ------
    ArtifactError
        Where the file is damaged, meant for another device or other versions, of other
        inputs or outputs, or not safe to open.
    ExecutionError
        Where the temporary file cannot be written.
    """
    reader = CheckedReader(stream, where)
    layout = reader.layout
    about, content = reader.take(layout.header), reader.take(layout.onnx)
    padding = reader.take(layout.padding)
    folder = None
    with ExitStack() as lasting:
        if layout.weights:
            folder = kept_in_folder(reader, layout.weights, where, lasting)
        sha256 = reader.finish()
        if any(padding):
            raise ArtifactError("damaged: there is something between its parts", where=where)
        header = parse_header(about, where)
        check_header(header, expected, where)
        proto = _parsed(content, header, layout, where, shared_bytes)
        return Artifact(header, proto, layout, sha256, folder, where, lasting.pop_all())


def import_compiled(
    stream: BinaryIO,
    *,
    expected: Expected,
    where: str = "compiled subgraph",
    trial: Trial | None = None,
    opener: Opener | None = None,
) -> CompiledSubgraph:
    """Read what ``export`` wrote, check it, and make it ready to run.

    Raises as ``read_artifact`` and ``Artifact.open`` do.
    """
    with read_artifact(stream, expected=expected, where=where) as artifact:
        return artifact.open(trial, opener)


def _parsed(
    content: bytes, header: Header, layout: Layout, where: str, shared_bytes: int | None
) -> onnx.ModelProto:
    """The ONNX part, once it is known to be what the header says and safe to hand on."""
    import onnx

    from hetsim.device.artifact.onnx_check import check_structure

    hint = "compile the plan again"
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(content)
        proto.DiscardUnknownFields()
        exact = proto.SerializeToString(deterministic=True) == content
    except Exception as error:  # protobuf's own type depends on its backend
        raise ArtifactError("its ONNX part cannot be parsed", where=where, hint=hint) from error
    if not exact:
        raise ArtifactError("its ONNX part is not as hetsim writes it", where=where, hint=hint)
    try:
        check_structure(proto, layout.weights, shared_bytes)
        for what, values, stated in (
            ("input", proto.graph.input, header.inputs),
            ("output", proto.graph.output, header.outputs),
        ):
            told = first_difference(describe(values), stated)
            if told is not None:
                raise ValueError(f"other {what}s than its header says: {told}")
    except ValueError as error:
        raise ArtifactError(f"its ONNX part is refused: {error}", where=where, hint=hint) from error
    return proto
