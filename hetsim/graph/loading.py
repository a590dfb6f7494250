"""Loading of a model from the user's file, the zoo, or memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hetsim.core import checks
from hetsim.core.process import collecting_put_off
from hetsim.core.room import out_of_room
from hetsim.errors import ModelError, OutOfRoom, UsageError, nearest

if TYPE_CHECKING:
    import onnx

    from hetsim.graph.inputs.arrays import Inputs
    from hetsim.graph.model import Model
    from hetsim.graph.reading.extension import Extension
    from hetsim.graph.reading.onnx_file import OnnxFile
    from hetsim.graph.shapes.observed import Observed

_ZOO = "zoo:"

_READING = {
    "dims": checks.mapping(checks.text, checks.whole()),
    "shapes": checks.mapping(checks.text, checks.sequence(checks.whole())),
    "inputs": checks.either(checks.mapping(checks.text), checks.path),
    "freeze": checks.mapping(checks.text),
    "canonical": checks.text,
    "extensions": checks.sequence(
        checks.either(checks.instance("hetsim.graph.reading.extension:Extension"), checks.path)
    ),
    "measure": checks.flag,
}
"""Checks of the arguments for reading a model."""


@checks.takes(source=checks.path, **_READING)
def load_model(
    source: str | os.PathLike[str],
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Inputs | None = None,
    freeze: Mapping[str, object] | None = None,
    canonical: Literal["none", "basic", "extended"] | None = None,
    extensions: Sequence[str | os.PathLike[str] | Extension] = (),
    measure: bool = True,
    observed: Observed | None = None,
) -> Model:
    """Load an ONNX model.

    Shapes follow from those of the inputs. If they depend on data, or on an op without shape
    inference, the model is run once, if its inputs are bound: on `inputs`, or on random ones. The
    same run shows branches and iterations of control flow.

    Parameters
    ----------
    source : path or str
        Path of the ``.onnx`` file, or ``zoo:NAME``. Nothing is written next to it.
    dims : mapping of str to int, optional
        Sizes of open dimensions of inputs: by name, by position (``x[2]``), or ``*`` for all
        others. A first dimension that the file fixes at 1 (``x[0]``) may be bound to several
        requests at once: shapes and constants of the graph for one request are widened, if it is
        shown that no node mixes requests.
    shapes : mapping of str to sequence of int, optional
        Whole shapes by input name.
    inputs : mapping of str to array, or path of a ``.npz`` file, optional
        All inputs: their shapes bind open dimensions, and a run, if needed, uses them.
    freeze : mapping of str to value, optional
        Inputs that become constants, so that values depending only on them are folded. One number
        fills the shape of its input.
    canonical : "none", "basic" or "extended", optional
        Level of ONNX Runtime's optimisation of the graph before all else. ``basic`` folds constants
        and fuses within standard ONNX; ``extended`` also uses com.microsoft ops; ``none`` keeps the
        file's graph. Absent: ``basic``; ``none`` above 30,000 nodes and for tree ensembles from
        262,144 nodes on, where rewriting costs more than it gains (``Model.unoptimised`` has the
        reason). At every level Constant nodes are constants, and values that no output depends on
        are removed.
    extensions : sequence of path or Extension, optional
        Custom operators: ``BODIES.onnx``, ``LIBRARY`` or ``LIBRARY=BODIES.onnx``; see
        ``load_extension``.
    measure : bool
        Whether the model may be run.
    observed : Observed, optional
        Observations of an earlier run, instead of a new one.

    Raises
    ------
    ModelError
        If the file is missing, broken, or not supported by the installed runtime, the model does
        not run on `inputs`, or its requests mix.
    UsageError
        For an unknown zoo name, dim, input or level, or contradictory sizes.
    RequestError
        If `inputs` do not fit the model.

    Complexity: linear in the graph; with optimisation also in the weights it touches. Memory: at
    most twice the file, besides the graph's. Large weights stay in the file until ``Model.proto``
    or ``Model.sha256`` is read.
    """
    from hetsim.graph.preparation import ReadingOptions, prepare

    _check_level(canonical)
    text = os.fspath(source)
    with _short_of(text), collecting_put_off():
        name, file = read_source(text)
        options = ReadingOptions(
            dims or {},
            shapes or {},
            inputs,
            freeze or {},
            canonical,
            tuple(extensions),
            measure,
            observed,
        )
        return prepare(file, name, text, options)


@checks.takes(
    proto=checks.instance("onnx:ModelProto"), name=checks.text, weights_dir=checks.path, **_READING
)
def model_of(
    proto: onnx.ModelProto,
    *,
    name: str = "model",
    weights_dir: str | os.PathLike[str] | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Inputs | None = None,
    freeze: Mapping[str, object] | None = None,
    canonical: Literal["none", "basic", "extended"] | None = None,
    extensions: Sequence[str | os.PathLike[str] | Extension] = (),
    measure: bool = True,
) -> Model:
    """Return the Model of an ONNX model in memory; `proto` is left unchanged.

    `name` is that of the model, and its source in messages; `weights_dir` the folder of its
    external data, if any. Other parameters and errors are as in ``load_model``.
    """
    from hetsim.graph.preparation import ReadingOptions, prepare
    from hetsim.graph.reading.onnx_file import from_memory

    _check_level(canonical)
    folder = None if weights_dir is None else Path(weights_dir)
    with _short_of(name), collecting_put_off():
        file = from_memory(proto, name, folder)
        options = ReadingOptions(
            dims or {}, shapes or {}, inputs, freeze or {}, canonical, tuple(extensions), measure
        )
        return prepare(file, name, name, options)


@contextmanager
def _short_of(source: str) -> Iterator[None]:
    """Name the model in memory errors raised within the context."""
    try:
        yield
    except MemoryError as error:
        raise out_of_room(error, source) or error from error
    except OutOfRoom as error:
        if error.where is not None:
            raise
        raise replace(error, where=source) from error


def _check_level(canonical: str | None) -> None:
    from hetsim.graph.reading.session import LEVELS

    if canonical is not None and canonical not in LEVELS:
        raise UsageError(
            f"unknown canonical level '{canonical}'", hint=nearest(str(canonical), LEVELS)
        )


def read_source(source: str) -> tuple[str, OnnxFile]:
    """Return the name and file of a model: a path, or ``zoo:NAME``. Raises ModelError."""
    from hetsim.graph.reading.onnx_file import read_onnx
    from hetsim.graph.zoo import models as zoo

    if source.startswith(_ZOO):
        name = source.removeprefix(_ZOO)
        return name, read_onnx(zoo.materialise(name))
    if source in zoo.names() and not os.path.lexists(source):
        hint = f"did you mean '{_ZOO}{source}'?"
        raise ModelError("no such file", where=source, hint=hint, missing=True)
    if source.endswith((".yaml", ".yml", ".json")) and os.path.isfile(source):
        what = "a model is an ONNX file, and this is YAML or JSON"
        raise ModelError(what, where=source, hint=f"'hetsim inspect {source}' shows what it is")
    return Path(source).stem, read_onnx(Path(source), apart=True)
