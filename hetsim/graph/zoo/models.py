"""The model zoo: real graphs with seeded random weights, written once into the user's cache."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hetsim.core.cache import ROOM
from hetsim.core.cache import cache_dir as cache_dir
from hetsim.core.files import sha256_of
from hetsim.core.room import out_of_room
from hetsim.core.scratch import lasting_folder
from hetsim.errors import ModelError, UsageError, nearest
from hetsim.graph.graph import Tensor

_FILL_VERSION = 1
"""Part of the cache folder's name: raise it whenever the bytes that `fill` gives change."""


@dataclass(frozen=True, slots=True)
class _Source:
    family: str
    file: str
    from_onnx: bool


def _from_onnx(family: str, stem: str) -> _Source:
    return _Source(family, f"light_{stem}.onnx", from_onnx=True)


def _own(family: str, stem: str) -> _Source:
    return _Source(family, f"{stem}.onnx", from_onnx=False)


_SOURCES: Mapping[str, _Source] = {
    "alexnet": _from_onnx("cnn", "bvlc_alexnet"),
    "densenet121": _from_onnx("cnn", "densenet121"),
    "inception_v1": _from_onnx("cnn", "inception_v1"),
    "inception_v2": _from_onnx("cnn", "inception_v2"),
    "resnet50": _from_onnx("cnn", "resnet50"),
    "shufflenet": _from_onnx("cnn", "shufflenet"),
    "squeezenet": _from_onnx("cnn", "squeezenet"),
    "vgg19": _from_onnx("cnn", "vgg19"),
    "zfnet512": _from_onnx("cnn", "zfnet512"),
    "bert_small": _own("transformer", "bert_small"),
    "gpt2_6layer": _own("transformer", "gpt2_6layer"),
    "mobilenet_v2": _own("cnn", "mobilenet_v2"),
    "resnet18": _own("cnn", "resnet18"),
    "vit_base": _own("transformer", "vit_base"),
}


@dataclass(frozen=True, slots=True)
class ZooEntry:
    """One model of the zoo.

    Attributes
    ----------
    name, family : str
        ``cnn`` or ``transformer``.
    nodes, parameters : int
        Nodes of the filled model before any optimisation; elements of its floating-point
        constants.
    inputs : tuple of Tensor
        What the caller provides.
    source, licence : str
        Where the graph is from. The weights are random in every case.
    """

    name: str
    family: str
    nodes: int
    parameters: int
    inputs: tuple[Tensor, ...]
    source: str
    licence: str


def names() -> tuple[str, ...]:
    """Return the names that ``zoo:NAME`` takes."""
    return tuple(_SOURCES)


def describe() -> tuple[ZooEntry, ...]:
    """Return what is known of every zoo model without filling any. Reads 14 small files."""
    return tuple(_describe(name) for name in _SOURCES)


def materialise(name: str) -> Path:
    """Return the path of zoo model `name`, written into the cache on first use.

    Beside the ``.onnx`` lies one file of external weights. Both depend on the source graph
    and the name alone, so that two processes that fill at once write the same bytes; each
    file appears whole or not at all, and an entry whose sizes are wrong is written anew.

    Raises
    ------
    UsageError
        Where there is no model of that name.
    ModelError
        Where the source graph is missing or the cache cannot be written.
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
    """Return the path of the unfilled graph of zoo model `name`.

    Raises UsageError where there is no such name, ModelError where onnx is not installed.
    """
    source = _SOURCES.get(name)
    if source is None:
        raise UsageError(f"there is no zoo model '{name}'", hint=nearest(name, _SOURCES))
    if not source.from_onnx:
        return Path(__file__).parent / "graphs" / source.file
    spec = importlib.util.find_spec("onnx")
    if spec is None or spec.origin is None:
        raise _missing(name, Path("onnx"))
    return Path(spec.origin).parent / "backend" / "test" / "data" / "light" / source.file


def _missing(name: str, source: Path) -> ModelError:
    return ModelError(
        f"the graph of zoo model '{name}' is not there",
        where=str(source),
        hint="install onnx anew: its wheel carries backend/test/data/light"
        if _SOURCES[name].from_onnx
        else "install hetsim anew",
    )


def _describe(name: str) -> ZooEntry:
    from hetsim.graph.zoo.random_weights import plan_fill, read_source

    path = source_path(name)
    if not path.is_file():
        raise _missing(name, path)
    filled = plan_fill(read_source(path), f"{name}.weights.bin")
    source = _SOURCES[name]
    return ZooEntry(
        name=name,
        family=source.family,
        nodes=len(filled.proto.graph.node),
        parameters=filled.parameters,
        inputs=filled.inputs,
        source=f"onnx, backend/test/data/light/{source.file}"
        if source.from_onnx
        else f"hetsim, graph/zoo/graphs/{source.file}",
        licence="Apache-2.0",
    )


def _manifest(path: Path) -> Path:
    return path.with_suffix(".json")


def _intact(path: Path) -> bool:
    """Whether both files of the entry are there with the sizes they were written with."""
    try:
        sizes = json.loads(_manifest(path).read_text())
        return bool(sizes) and all(
            (path.parent / file).stat().st_size == size for file, size in sizes.items()
        )
    except (OSError, ValueError, AttributeError):
        return False


def _write(name: str, source: Path, folder: Path) -> None:
    from hetsim.graph.zoo.random_weights import fill, read_source

    folder.mkdir(parents=True, exist_ok=True)
    # Made beside its target, so that every move below is a rename within one file system.
    with lasting_folder(folder, ".making-") as scratch:
        model = scratch / f"{name}.onnx"
        weights = scratch / f"{name}.weights.bin"
        fill(read_source(source), model, weights)
        sizes = {file.name: file.stat().st_size for file in (weights, model)}
        _manifest(model).write_text(json.dumps(sizes))
        # The manifest last: an entry counts only once both files that it names are there.
        for file in (weights, model, _manifest(model)):
            os.replace(file, folder / file.name)
