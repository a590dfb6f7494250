"""Large constants of a model in a file of their own, while ONNX Runtime looks at the rest.

Handed over within the model they would be copied as it is serialised, as it is parsed, and as what
was made of it is written and read. From a file they are mapped, and only what is folded is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from hetsim.graph.reading.onnx_file import tensors_of
from hetsim.graph.reading.onnx_types import bytes_of

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
