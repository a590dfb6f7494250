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
"""What the verbs want of the arguments that say how a model is to be read."""


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

    Shapes follow from those of the inputs. Where they depend on data, or an op is one that no
    inference knows, the model is run once, if its inputs are bound: on `inputs`, or on random
    ones. The same run says which branches and how many iterations control flow takes.

    Parameters
    ----------
    source : path or str
        Of the ``.onnx`` file, or ``zoo:NAME``. Nothing is written beside it.
    dims : mapping of str to int, optional
        Sizes of open dimensions of inputs: by name, by place (``x[2]``), or ``*`` for every one
        that nothing else binds. A first dimension that the file fixes at 1 (``x[0]``) may be
        bound to several requests at once: shapes and constants of the graph that are of one are
        changed, where it is shown that no node lets requests meet.
    shapes : mapping of str to sequence of int, optional
        Whole shapes by input name.
    inputs : mapping of str to array, or path of a ``.npz`` file, optional
        Every input: their shapes bind what is open, and a run that is needed is one on them.
    freeze : mapping of str to value, optional
        Inputs that become constants, so that what depends on them alone folds. One number fills
        the shape of its input.
    canonical : "none", "basic" or "extended", optional
        How far ONNX Runtime optimises the graph before anything else sees it. ``basic``
        folds constants and fuses within standard ONNX; ``extended`` also uses
        com.microsoft ops; ``none`` keeps the file's graph. Absent: ``basic``; ``none``
        above 30,000 nodes and for tree ensembles from 262,144 nodes on, where rewriting costs more
        than it gives, and ``Model.unoptimised`` says so. At every level Constant nodes are
        constants, and what no output depends on is left out.
    extensions : sequence of path or Extension, optional
        Custom operators: ``BODIES.onnx``, ``LIBRARY`` or ``LIBRARY=BODIES.onnx``; see
        ``load_extension``.
    measure : bool
        Whether the model may be run.
    observed : Observed, optional
        What a run showed before: none is made then.

    Raises
    ------
    ModelError
        Where the file is missing, broken, or outside what the installed runtime reads, or the
        model does not run on `inputs`, or its requests cannot be told apart.
    UsageError
        Where a zoo name, a dim, an input or the level does not exist, or sizes contradict.
    RequestError
        Where `inputs` do not fit the model.

    Complexity: linear in the graph; with optimisation also in the weights it touches. Memory: twice
    the file at most, beside the graph's. Large weights are left in the file until ``Model.proto``
    or ``Model.sha256`` is asked for.
    """
    from hetsim.graph.preparation import Options, prepare

    _check_level(canonical)
    text = os.fspath(source)
    with _short_of(text), collecting_put_off():
        name, file = read_source(text)
        options = Options(
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
    """Model from an ONNX model in memory; `proto` is left unchanged.

    `name` is that of the model, and its source in messages; `weights_dir` the folder of its
    external data, absent where it has none. The others, and what is raised, are as of
    ``load_model``.
    """
    from hetsim.graph.preparation import Options, prepare
    from hetsim.graph.reading.onnx_file import from_memory

    _check_level(canonical)
    folder = None if weights_dir is None else Path(weights_dir)
    with _short_of(name), collecting_put_off():
        file = from_memory(proto, name, folder)
        options = Options(
            dims or {}, shapes or {}, inputs, freeze or {}, canonical, tuple(extensions), measure
        )
        return prepare(file, name, name, options)


@contextmanager
def _short_of(source: str) -> Iterator[None]:
    """Within, an error of memory that ends names the model that it was for."""
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
    """Return the name and the file of a model: a path, or ``zoo:NAME``. Raises ModelError."""
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
