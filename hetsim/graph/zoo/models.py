"""Model zoo: real graphs with seeded random weights, written once into the user's cache."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hetsim.core.files import ROOM, lasting_folder, sha256_of
from hetsim.core.files import cache_dir as cache_dir
from hetsim.core.room import out_of_room
from hetsim.errors import ModelError, UsageError, nearest
from hetsim.graph.graph import Tensor

_FILL_VERSION = 1
"""Version of the filled weights, raised whenever the bytes from `fill` change."""


_FROM_ONNX: Mapping[str, str] = {
    "alexnet": "bvlc_alexnet", "densenet121": "densenet121", "inception_v1": "inception_v1",
    "inception_v2": "inception_v2", "resnet50": "resnet50", "shufflenet": "shufflenet",
    "squeezenet": "squeezenet", "vgg19": "vgg19", "zfnet512": "zfnet512",
}  # fmt: skip
"""Graphs that come with onnx, in ``backend/test/data/light``, by name; the others are here."""

_FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(_FROM_ONNX, "cnn"),
    "bert_small": "transformer",
    "gpt2_6layer": "transformer",
    "mobilenet_v2": "cnn",
    "resnet18": "cnn",
    "vit_base": "transformer",
}


@dataclass(frozen=True, slots=True)
class ZooEntry:
    """Graph of the zoo, with counts of nodes and of floating-point constants."""

    name: str
    family: str
    nodes: int
    parameters: int
    inputs: tuple[Tensor, ...]
    source: str
    licence: str


def names() -> tuple[str, ...]:
    """Return the names that ``zoo:NAME`` takes."""
    return tuple(_FAMILIES)


def describe() -> tuple[ZooEntry, ...]:
    """Return the properties of every zoo model without filling any. Reads 14 small files."""
    return tuple(_describe(name) for name in _FAMILIES)


def materialise(name: str) -> Path:
    """Return the path of zoo model `name`, written into the cache on first use.

    External weights are in one file next to the ``.onnx``. Both depend only on the source graph and
    the name; each file is written atomically, and an entry with wrong sizes is written again.
    Raises UsageError for an unknown name, ModelError if the source graph is missing or the cache
    cannot be written.
    """
    source = source_path(name)
    try:
        digest = sha256_of(source)[:12]
    except OSError as error:
        raise _missing(name, source) from error
    folder = cache_dir() / "zoo" / f"{_FILL_VERSION}-{digest}"
    path = folder / f"{name}.onnx"
    if not _intact(path):
        try:
            _write(name, source, folder)
        except OSError as error:
            raise out_of_room(error, f"zoo model '{name}'", path=folder, hint=ROOM) or ModelError(
                f"zoo model '{name}' cannot be written: {error.strerror or error}",
                where=str(folder),
                hint=ROOM,
            ) from error
    return path


def source_path(name: str) -> Path:
    """Return the path of the unfilled graph of `name`; UsageError, or ModelError without onnx."""
    if name not in _FAMILIES:
        raise UsageError(f"there is no zoo model '{name}'", hint=nearest(name, _FAMILIES))
    if name not in _FROM_ONNX:
        return Path(__file__).parent / "graphs" / f"{name}.onnx"
    spec = importlib.util.find_spec("onnx")
    if spec is None or spec.origin is None:
        raise _missing(name, Path("onnx"))
    light = Path(spec.origin).parent / "backend" / "test" / "data" / "light"
    return light / f"light_{_FROM_ONNX[name]}.onnx"


def _missing(name: str, source: Path) -> ModelError:
    return ModelError(
        f"the graph of zoo model '{name}' is missing",
        where=str(source),
        hint="reinstall onnx: its wheel contains backend/test/data/light"
        if name in _FROM_ONNX
        else "reinstall hetsim",
    )


def _describe(name: str) -> ZooEntry:
    import onnx

    from hetsim.graph.zoo.random_weights import plan_fill

    path = source_path(name)
    if not path.is_file():
        raise _missing(name, path)
    filled = plan_fill(onnx.load(path, load_external_data=False), f"{name}.weights.bin")
    return ZooEntry(
        name=name,
        family=_FAMILIES[name],
        nodes=len(filled.proto.graph.node),
        parameters=filled.parameters,
        inputs=filled.inputs,
        source=f"onnx, backend/test/data/light/{path.name}"
        if name in _FROM_ONNX
        else f"hetsim, graph/zoo/graphs/{path.name}",
        licence="Apache-2.0",
    )


def _manifest(path: Path) -> Path:
    return path.with_suffix(".json")


def _intact(path: Path) -> bool:
    """Return whether both files of the entry exist with the sizes they were written with."""
    try:
        sizes = json.loads(_manifest(path).read_text())
        return bool(sizes) and all(
            (path.parent / file).stat().st_size == size for file, size in sizes.items()
        )
    except (OSError, ValueError, AttributeError):
        return False


def _write(name: str, source: Path, folder: Path) -> None:
    import onnx

    from hetsim.graph.zoo.random_weights import fill

    folder.mkdir(parents=True, exist_ok=True)
    # Made next to its target, so that every move below is a rename within one file system.
    with lasting_folder(folder, ".making-") as scratch:
        model = scratch / f"{name}.onnx"
        weights = scratch / f"{name}.weights.bin"
        fill(onnx.load(source, load_external_data=False), model, weights)
        sizes = {file.name: file.stat().st_size for file in (weights, model)}
        _manifest(model).write_text(json.dumps(sizes))
        # The manifest last: an entry counts only once both files that it names exist.
        for file in (weights, model, _manifest(model)):
            os.replace(file, folder / file.name)
