"""Devices that a file notes on its nodes, by the two carriers that ONNX and ONNX Runtime define."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

LAYER_KEY = "layer_ann"
"""Metadata key in which ONNX Runtime looks for the device group of a node."""


@dataclass(frozen=True, slots=True)
class DeviceNote:
    """One note on one node.

    Attributes
    ----------
    node : str
        Name in the file, made up where the file had none.
    carrier : str
        ``layer_ann``, or the name of the model's device configuration.
    devices : tuple of str
        All that the note names; more than one where tensors of the node are sharded or on
        several devices, none where only a pipeline stage is given.
    """

    node: str
    carrier: str
    devices: tuple[str, ...]


def take_device_notes(
    proto: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]
) -> tuple[DeviceNote, ...]:
    """Read the notes on `nodes`, which all have a name, and clear their metadata. O(V + E).

    A device index that its configuration does not name is given as ``#3``.
    """
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
