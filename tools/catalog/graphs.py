"""Graphs of measured networks, and the kernels in them as tables."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.measured import ITEM_BYTES, WEIGHT_BYTES
from hetsim.cost.kernels.networks import KernelTable, Networks, network_table
from hetsim.errors import ModelError, UsageError, nearest

if TYPE_CHECKING:
    from hetsim.graph.model import Model


_ARCHIVE = "graphs.tar.gz"
_INDEX = "INDEX.json"


@dataclass(frozen=True, slots=True)
class GraphEntry:
    """What the archive's index says of a graph.

    Attributes
    ----------
    file : str
        Its name, as rows say it: ``resnet50.onnx``.
    macs : int
        Multiply-accumulates of one sample.
    params : int
        Weights.
    sha256 : str
        Of the file's bytes: it changes where the network does.
    package, version, function, licence : str
        What it was made from, and under which licence that stands.
    """

    file: str
    macs: int
    params: int
    sha256: str
    package: str
    version: str
    function: str
    licence: str


@dataclass(frozen=True, slots=True)
class Graphs:
    """The networks' graphs, at batch 1 and without weights, by file name.

    Attributes
    ----------
    entries : mapping of str to GraphEntry
        By file name, sorted.
    """

    entries: Mapping[str, GraphEntry]
    _contents: Mapping[str, bytes]

    def content(self, file: str) -> bytes:
        """Return the bytes of the ONNX file called `file`.

        Raises
        ------
        UsageError
            Where the archive has none of that name, with the nearest one.
        """
        if file not in self.entries:
            raise UsageError(
                f"there is no graph '{file}' of a measured network",
                hint=nearest(file, self.entries),
            )
        return self._contents[file]

    def load(self, file: str) -> Model:
        """Return the network of the file called `file`, loaded as any other is.

        Raises
        ------
        UsageError
            As for ``content``.
        """
        import onnx

        from hetsim.graph.loading import model_of

        proto = onnx.load_model_from_string(self.content(file))
        return model_of(proto, name=Path(file).stem)


def read_graphs(folder: Path) -> Graphs:
    """Read the archive in the folder of the measurements.

    Raises
    ------
    ModelError
        Where a graph is missing or is not the one that the index names.
    """
    path = folder / _ARCHIVE
    with tarfile.open(fileobj=io.BytesIO(path.read_bytes()), mode="r:gz") as archive:
        contents = {
            member.name: held.read()
            for member in archive
            if (held := archive.extractfile(member)) is not None
        }
    entries: dict[str, GraphEntry] = {}
    for told in json.loads(contents[_INDEX])["graphs"]:
        entry = GraphEntry(
            file=told["file"],
            macs=told["macs"],
            params=told["params"],
            sha256=told["sha256"],
            **{key: told["source"][key] for key in ("package", "version", "function", "licence")},
        )
        content = contents.get(entry.file, b"")
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            raise ModelError(
                f"'{entry.file}' is not the graph that {_INDEX} names",
                where=str(path),
                hint="take the archive as it was released",
            )
        entries[entry.file] = entry
    return Graphs(dict(sorted(entries.items())), contents)


@dataclass(frozen=True, slots=True)
class Tables:
    """Kernel tables by graph; each is made when it is first asked for, in about 0.1 s."""

    graphs: Graphs
    _made: dict[str, KernelTable] = field(default_factory=dict)

    def table(self, file: str) -> KernelTable:
        """Return the kernels of the network of the file called `file`."""
        if file not in self._made:
            self._made[file] = network_table(self.graphs.load(file).graph)
        return self._made[file]

    def networks(self, points: Iterable[tuple[str, int, int, int]]) -> Networks:
        """Lay points end to end: each a file, a batch, bytes of an activation and of a weight."""
        return Networks.of(
            self.table(file).laid(batch, item_bytes, weight_bytes)
            for file, batch, item_bytes, weight_bytes in points
        )


def bytes_of(kin: str, precision: str, halves: bool = False) -> tuple[int, int]:
    """Return the bytes of an activation and of a weight in a kin's precision."""
    if precision == "float" and (halves or "-gpu-" in kin):
        return 2, 2
    return ITEM_BYTES[precision], WEIGHT_BYTES[precision]


def kin_bytes(kin: str, precision: str) -> tuple[int, int]:
    """Return the same for what its networks are told apart by, on all devices alike."""
    return bytes_of(kin, precision, halves=True)
