"""Loaded model: dims bound, canonical, with its nodes traced to the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetsim.core.result import short
from hetsim.errors import UsageError, nearest
from hetsim.graph.graph import Graph

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

    from hetsim.graph.canonical.half_precision import Lowering
    from hetsim.graph.reading.extension import Extension
    from hetsim.graph.reading.onnx_file import OnnxFile
    from hetsim.graph.shapes.observed import Observed


@dataclass(frozen=True, slots=True)
class FileNode:
    """Node of the user's file, renamed where needed; ``""`` in `outputs` is an absent one."""

    name: str
    op: str
    outputs: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """ONNX model, ready to be partitioned and priced.

    `name` is the stem of the file, or that in the zoo, `source` the given path or ``zoo:NAME``.
    `graph` is the canonical graph, `proto` the same as ONNX: ``proto.graph.node[i]`` is
    ``graph.nodes[i]``, under the same name; `stored` is `proto` without the weights left in `file`,
    and `digest` is `sha256`, None if it is that of `file`. All values are typed. Large weights that
    optimisation did not touch are external data relative to `weights_dir`, an absolute path, None
    without any; modified ones are inline. `sha256` is that of the file; external data counts by
    name and size, and so do `extensions`, its custom operators. `canonical` is ``none``, ``basic``
    or ``extended``, and `unoptimised` the reason for an automatic ``none``. `dims` and `shapes`
    were bound as given; `frozen` inputs were made constants.

    The `file_nodes`, including those of op type Constant, are in topological order; `folded` ones
    became constants or were removed, and have no canonical node. `device_notes` are the devices
    assigned in the file. `lowering` is executed instead of the graph if CPU kernels for its 16-bit
    floats are missing. `observed` has the results of a run, if needed because shapes hold only for
    it, or the shapes of given inputs; `unmeasured` is the reason for no run.
    """

    name: str
    source: str
    graph: Graph = field(repr=False)
    stored: onnx.ModelProto = field(repr=False)
    weights_dir: Path | None
    digest: str | None = field(repr=False)
    canonical: str
    dims: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    file_nodes: tuple[FileNode, ...] = field(repr=False)
    folded: tuple[str, ...] = field(repr=False)
    device_notes: tuple[DeviceNote, ...] = field(default=(), repr=False)
    extensions: tuple[Extension, ...] = ()
    frozen: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    lowering: Lowering | None = field(default=None, repr=False)
    observed: Observed | None = field(default=None, repr=False)
    unmeasured: str | None = None
    unoptimised: str | None = None
    file: OnnxFile | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        inputs = ", ".join(self.graph.inputs)
        dims = ", ".join(f"{name}={size}" for name, size in self.dims.items())
        return short(
            f"Model: {self.name} from {self.source}",
            f"nodes: {len(self.graph.nodes)}, inputs: {inputs}",
            f"dims: {dims}" if dims else "",
        )

    @cached_property
    def proto(self) -> onnx.ModelProto:
        """Graph as ONNX. Raises ModelError if the file of its weights has changed since."""
        if self.file is not None:
            self.file.complete(self.stored)
        return self.stored

    @cached_property
    def sha256(self) -> str:
        """Digest of the file. Raises ModelError if it has changed since it was read."""
        if self.digest is not None:
            return self.digest
        assert self.file is not None
        return self.file.sha256

    @property
    def original_nodes(self) -> tuple[str, ...]:
        """Names of the file's nodes, with generated names for unnamed ones."""
        return tuple(node.name for node in self.file_nodes)

    @property
    def libraries(self) -> tuple[str, ...]:
        """Paths of the libraries of custom operators."""
        from hetsim.graph.reading.extension import libraries_of

        return libraries_of(self.extensions)

    def canonical_names(self, original: str) -> tuple[str, ...]:
        """Return the canonical nodes made from node `original` of the file.

        Empty if it was folded. Raises UsageError if the file has no such node.
        """
        if original not in self._descendants:
            raise UsageError(
                f"no node named '{original}'",
                where=self.source,
                hint=nearest(original, self._descendants),
            )
        return tuple(self._descendants[original])

    @cached_property
    def _descendants(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {name: [] for name in self.original_nodes}
        for node in self.graph.nodes:
            for name in node.origins:
                found[name].append(node.name)
        return found


LAYER_KEY = "layer_ann"
"""Metadata key that ONNX Runtime reads for the device group of a node."""


@dataclass(frozen=True, slots=True)
class DeviceNote:
    """Devices that ``layer_ann`` or a configuration, the `carrier`, names for a node."""

    node: str
    carrier: str
    devices: tuple[str, ...]


def take_device_notes(
    proto: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]
) -> tuple[DeviceNote, ...]:
    """Return the notes on `nodes`, and clear their metadata. O(V + E)."""
    names = {entry.name: tuple(entry.device) for entry in proto.configuration}
    found: list[DeviceNote] = []
    for node in nodes:
        found.extend(
            DeviceNote(node.name, LAYER_KEY, (entry.value,))
            for entry in node.metadata_props
            if entry.key == LAYER_KEY
        )
        del node.metadata_props[:]
        for noted in node.device_configurations:
            known = names.get(noted.configuration_id, ())
            indices = dict.fromkeys(i for spec in noted.sharding_spec for i in spec.device)
            devices = tuple(known[i] if 0 <= i < len(known) else f"#{i}" for i in indices)
            found.append(DeviceNote(node.name, noted.configuration_id, devices))
    return tuple(found)
