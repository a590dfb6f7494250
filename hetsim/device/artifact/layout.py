"""The bytes of a compiled subgraph's file: prefix, header, ONNX part, weights, digest.

========  =====================================================================
bytes     content
========  =====================================================================
8         magic
4, 4      format version; size of the header (little-endian, as all numbers)
8, 8      size of the ONNX part; size of the weights
...       header: canonical JSON
...       ONNX part: a ``ModelProto`` whose large weights are references
0 .. 63   zeros, so that the weights start at a multiple of 64
...       weights: each tensor's bytes, at a multiple of 64
32        SHA-256 of everything before it
========  =====================================================================

The digest tells damage, not origin: whoever changes a file can take the digest anew. So every
size is held against what is there before anything is read, and what is read is checked again.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from hetsim.base.room import out_of_room
from hetsim.base.scratch import scratch_folder
from hetsim.errors import ArtifactError, ExecutionError

MAGIC = b"\x89HSUB\r\n\x1a"
"""Not text, and broken by whatever converts line ends."""

VERSION = 1
CONTAINER = "weights"
"""The one location that external data may name: the weights section of the file itself."""

ALIGNMENT = 64
DIGEST_BYTES = 32
HEADER_LIMIT_BYTES = 2**24
ONNX_LIMIT_BYTES = 2**31 - 1
CHUNK_BYTES = 2**22

_PREFIX = struct.Struct("<8sIIQQ")
_DEPTH_LIMIT = 8
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of the parts of a file, in bytes.

    Attributes
    ----------
    header, onnx, weights : int
    """

    header: int
    onnx: int
    weights: int

    @property
    def padding(self) -> int:
        """Zeros before the weights."""
        return -(_PREFIX.size + self.header + self.onnx) % ALIGNMENT

    @property
    def weights_offset(self) -> int:
        """Where the weights start in the file; a multiple of 64."""
        return _PREFIX.size + self.header + self.onnx + self.padding

    @property
    def total(self) -> int:
        """Size of the file."""
        return self.weights_offset + self.weights + DIGEST_BYTES

    def prefix(self) -> bytes:
        """Return what the file starts with."""
        return _PREFIX.pack(MAGIC, VERSION, self.header, self.onnx, self.weights)


class DigestingWriter:
    """Writes to a stream, and takes the digest of what it wrote."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        """Write all of `data`."""
        view = memoryview(data)
        self._digest.update(view)
        while view:
            # A raw stream may take less than it is given.
            written = self._stream.write(view)
            view = view[len(view) if written is None else written :]

    def finish(self) -> str:
        """Write the digest, and return it in hexadecimal."""
        digest = self._digest.digest()
        self.write(digest)
        return digest.hex()


class CheckedReader:
    """Reads a file from its first byte to its last, and refuses one of any other size.

    Parameters
    ----------
    stream : BinaryIO
        Read from where it stands; it has to end where the file ends.
    where : str
        The file, for messages.

    Raises
    ------
    ArtifactError
        From the constructor and every method: no such file, another format version, sizes
        that are not those of the stream, or a stream that cannot be read.
    """

    def __init__(self, stream: BinaryIO, where: str) -> None:
        self._stream = stream
        self._where = where
        self._digest = hashlib.sha256()
        size = _remaining(stream)
        self.layout = self._prefix()
        if size is not None and size != self.layout.total:
            raise self._of_another_size(size)

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes; memory grows only with what is really there."""
        parts = io.BytesIO()
        for chunk in self.chunks(count):
            parts.write(chunk)
        return parts.getvalue()

    def chunks(self, count: int) -> Iterator[bytes]:
        """Yield the next `count` bytes piece by piece."""
        while count:
            chunk = self._read(min(count, CHUNK_BYTES))
            if not chunk:
                raise ArtifactError(
                    "cut short: it ends before its stated size", where=self._where, hint=_ANEW
                )
            self._digest.update(chunk)
            count -= len(chunk)
            yield chunk

    def finish(self) -> str:
        """Read the digest and return it; refuse another content, or more behind it."""
        found = self._digest.digest()
        if self.take(DIGEST_BYTES) != found:
            raise ArtifactError(
                "damaged: its content is not what its SHA-256 was taken of",
                where=self._where,
                hint=_ANEW,
            )
        if self._read(1):
            raise ArtifactError("it goes on after its end", where=self._where, hint=_ANEW)
        return found.hex()

    def _prefix(self) -> Layout:
        data = self._some(len(MAGIC))
        if data != MAGIC:
            raise ArtifactError(
                "no compiled subgraph" if data else "no compiled subgraph: it is empty",
                where=self._where,
                hint="give a file that `hetsim compile` or export wrote",
            )
        rest = self._some(_PREFIX.size - len(MAGIC))
        if len(rest) >= 4:
            (version,) = struct.unpack_from("<I", rest)
            if version != VERSION:
                raise ArtifactError(
                    f"of format version {version}, and this hetsim reads version {VERSION}",
                    where=self._where,
                    hint="compile the plan again with this hetsim",
                )
        if len(rest) < _PREFIX.size - len(MAGIC):
            raise ArtifactError("cut short within its first line", where=self._where, hint=_ANEW)
        _, _, header, onnx, weights = _PREFIX.unpack(data + rest)
        if header > HEADER_LIMIT_BYTES or onnx > ONNX_LIMIT_BYTES or weights >= 2**62:
            raise ArtifactError(
                f"damaged: it claims a header of {header} bytes, an ONNX part of {onnx} and "
                f"weights of {weights}",
                where=self._where,
                hint=_ANEW,
            )
        return Layout(header, onnx, weights)

    def _some(self, count: int) -> bytes:
        """Up to `count` bytes: fewer only at the end of the stream."""
        data = b""
        while len(data) < count and (more := self._read(count - len(data))):
            data += more
        self._digest.update(data)
        return data

    def _read(self, count: int) -> bytes:
        try:
            return self._stream.read(count) or b""
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ArtifactError(f"cannot be read: {reason}", where=self._where) from error

    def _of_another_size(self, size: int) -> ArtifactError:
        due = self.layout.total
        what = "cut short" if size < due else "longer than it should be"
        return ArtifactError(
            f"{what}: {size} bytes, and its parts take {due}", where=self._where, hint=_ANEW
        )


_ANEW = "compile the plan again, or copy the file anew"


def kept_in_folder(reader: CheckedReader, count: int, where: str, lasting: ExitStack) -> Path:
    """Copy the next `count` bytes to a file ``weights`` in a new temporary folder; return that.

    It is there until `lasting` ends. Raises ArtifactError as the reader does, ExecutionError where
    it cannot be written.
    """
    folder = None
    try:
        folder = lasting.enter_context(scratch_folder())
        with (folder / CONTAINER).open("wb") as file:
            for chunk in reader.chunks(count):
                file.write(chunk)
    except OSError as error:
        room = "set TMPDIR to a folder that is writable and has room"
        short = out_of_room(error, where, path=folder, needed_bytes=count, hint=room)
        raise short or ExecutionError(
            f"the weights cannot be written: {error.strerror or error}", where=where, hint=room
        ) from error
    return folder


def canonical_json(record: Mapping[str, Any]) -> bytes:
    """Return the one way to write `record`: ASCII, keys sorted, no spaces."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def parse_canonical_json(data: bytes, where: str) -> dict[str, Any]:
    """Undo ``canonical_json``.

    Raises ArtifactError for any other text, so that equal records are equal bytes: repeated
    keys, other spacing and deep nesting are refused.
    """
    try:
        depth = deepest = 0
        for match in _TOKENS.finditer(data):
            token = match.group()[:1]
            depth += (token in b"[{") - (token in b"]}")
            deepest = max(deepest, depth)
        if deepest > _DEPTH_LIMIT:
            raise ValueError(f"nested {deepest} deep")
        record = json.loads(data.decode("ascii"))
        if not isinstance(record, dict) or canonical_json(record) != data:
            raise ValueError("no record, or not in its canonical form")
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"its header cannot be read: {error}", where=where) from error
    return record


def _remaining(stream: BinaryIO) -> int | None:
    """Bytes from where the stream stands to its end; None where it cannot tell."""
    try:
        if not stream.seekable():
            return None
        here = stream.tell()
        end = stream.seek(0, io.SEEK_END)
        stream.seek(here)
        return max(0, end - here)
    except (OSError, ValueError, AttributeError):
        return None
