"""A model from the user's file or the zoo: dims bound, canonical, its nodes traced to the file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hetsim import checks
from hetsim.errors import ModelError, UsageError, nearest
from hetsim.graph.graph import Graph

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

    from hetsim.graph.device_notes import DeviceNote
    from hetsim.graph.extension import Extension
    from hetsim.graph.input_files import Inputs
    from hetsim.graph.lowering import Lowering
    from hetsim.graph.observed import Observed
    from hetsim.graph.onnx_file import OnnxFile
    from hetsim.graph.preparation import Wishes

_ZOO = "zoo:"


@dataclass(frozen=True, eq=False)
class Model:
    """An ONNX model, ready to be cut and priced.

    Attributes
    ----------
    name : str
        Stem of the file, or the name in the zoo.
    source : str
        Path or ``zoo:NAME`` as it was given.
    graph : Graph
        The canonical graph.
    proto : onnx.ModelProto
        The same as ONNX: ``proto.graph.node[i]`` is ``graph.nodes[i]``, under the same
        name. All values are typed. Large weights that optimisation did not touch are
        external data relative to `weights_dir`; those it made are inline.
    weights_dir : Path or None
        Absolute; None where no external data is left.
    sha256 : str
        Of the file; external data counts by name and size, and extensions with it.
    canonical : str
        ``none``, ``basic`` or ``extended``.
    dims, shapes : mapping
        What was bound, as it was given.
    original_nodes : tuple of str
        Names of the file's nodes, those without a name named.
    folded : tuple of str
        Those of them that became constants or vanished: no canonical node stands for them.
    device_notes : tuple of DeviceNote
        Devices that the file notes on its nodes.
    extensions : tuple of Extension
        Custom operators that it was read with.
    frozen : mapping of str to array
        Inputs that were made constants.
    lowering : Lowering or None
        What runs in the place of the graph, where ONNX Runtime's CPU kernels lack some for
        its 16-bit floats; None: the graph itself.
    observed : Observed or None
        What one run showed, where one was needed: shapes that depend on data hold for it.
    unmeasured : str or None
        Why there was no run, where shapes are open without one.
    """

    name: str
    source: str
    graph: Graph = field(repr=False)
    proto: onnx.ModelProto = field(repr=False)
    weights_dir: Path | None
    sha256: str
    canonical: str
    dims: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    original_nodes: tuple[str, ...] = field(repr=False)
    folded: tuple[str, ...] = field(repr=False)
    device_notes: tuple[DeviceNote, ...] = field(default=(), repr=False)
    extensions: tuple[Extension, ...] = ()
    frozen: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    lowering: Lowering | None = field(default=None, repr=False)
    observed: Observed | None = field(default=None, repr=False)
    unmeasured: str | None = None

    @property
    def libraries(self) -> tuple[str, ...]:
        """Paths of the libraries of custom operators."""
        from hetsim.graph.extension import libraries_of

        return libraries_of(self.extensions)

    def canonical_names(self, original: str) -> tuple[str, ...]:
        """Return the canonical nodes that stand for node `original` of the file.

        Empty where it was folded. Raises UsageError where the file has no such node.
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


_SIZES = checks.mapping(checks.text, checks.whole())
_SHAPES = checks.mapping(checks.text, checks.sequence(checks.whole()))
_EXTENSIONS = checks.sequence(
    checks.either(checks.path, checks.instance("hetsim.graph.extension:Extension"))
)


@checks.takes(
    path=checks.path,
    dims=_SIZES,
    shapes=_SHAPES,
    inputs=checks.either(checks.mapping(checks.text), checks.path),
    freeze=checks.mapping(checks.text),
    canonical=checks.text,
    extensions=_EXTENSIONS,
    measure=checks.flag,
)
def load_model(
    path: str | os.PathLike[str],
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    inputs: Inputs | None = None,
    freeze: Mapping[str, object] | None = None,
    canonical: Literal["none", "basic", "extended"] = "basic",
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
    path : path or str
        Of the ``.onnx`` file, or ``zoo:NAME``. Nothing is written beside it.
    dims : mapping of str to int, optional
        Sizes of open dimensions of inputs: by name, by place (``x[2]``), or ``*`` for every one
        that nothing else binds.
    shapes : mapping of str to sequence of int, optional
        Whole shapes by input name.
    inputs : mapping of str to array, or path of a ``.npz`` file, optional
        Every input: their shapes bind what is open, and a run that is needed is one on them.
    freeze : mapping of str to value, optional
        Inputs that become constants, so that what depends on them alone folds. One number fills
        the shape of its input.
    canonical : "none", "basic" or "extended"
        How far ONNX Runtime optimises the graph before anything else sees it. ``basic``
        folds constants and fuses within standard ONNX; ``extended`` also uses
        com.microsoft ops; ``none`` keeps the file's graph. At every level Constant nodes are
        constants, and what no output depends on is left out.
    extensions : sequence of path or Extension, optional
        Custom operators: ``BODIES.onnx``, ``LIBRARY`` or ``LIBRARY=BODIES.onnx``; see
        ``read_extension``.
    measure : bool
        Whether the model may be run.
    observed : Observed, optional
        What a run showed before: none is made then.

    Raises
    ------
    ModelError
        Where the file is missing, broken, or outside what the installed runtime reads, or the
        model does not run on `inputs`.
    UsageError
        Where a zoo name, a dim, an input or the level does not exist, or sizes contradict.
    RequestError
        Where `inputs` do not fit the model.

    Complexity: linear in the graph; with optimisation also in the weights it touches.
    """
    _check_level(canonical)
    source = os.fspath(path)
    name, file = _read(source)
    wishes = _wishes(dims, shapes, inputs, freeze, canonical, extensions, measure, observed)
    return _prepare(file, name, source, wishes)


@checks.takes(
    proto=checks.instance("onnx:ModelProto"),
    name=checks.text,
    weights_dir=checks.path,
    dims=_SIZES,
    shapes=_SHAPES,
    inputs=checks.either(checks.mapping(checks.text), checks.path),
    freeze=checks.mapping(checks.text),
    canonical=checks.text,
    extensions=_EXTENSIONS,
    measure=checks.flag,
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
    canonical: Literal["none", "basic", "extended"] = "basic",
    extensions: Sequence[str | os.PathLike[str] | Extension] = (),
    measure: bool = True,
) -> Model:
    """Take an ONNX model that is in memory; `proto` is left as it is.

    Parameters
    ----------
    proto : onnx.ModelProto
    name : str
        Of the model, and its source in messages.
    weights_dir : path, optional
        Folder of its external data; absent where it has none.
    dims, shapes, inputs, freeze, canonical, extensions, measure
        As for ``load_model``, which says what is raised, too.
    """
    from hetsim.graph.onnx_file import from_memory

    _check_level(canonical)
    folder = None if weights_dir is None else Path(weights_dir)
    if folder is not None and "\0" in str(folder):
        raise ModelError("weights_dir cannot be read: no folder has such a name", where=name)
    file = from_memory(proto, name, folder)
    wishes = _wishes(dims, shapes, inputs, freeze, canonical, extensions, measure, None)
    return _prepare(file, name, name, wishes)


def _check_level(canonical: str) -> None:
    from hetsim.graph.runtime import LEVELS

    if canonical not in LEVELS:
        raise UsageError(
            f"there is no canonical level '{canonical}'", hint=nearest(str(canonical), LEVELS)
        )


def _wishes(
    dims: Mapping[str, int] | None,
    shapes: Mapping[str, Sequence[int]] | None,
    inputs: Inputs | None,
    freeze: Mapping[str, object] | None,
    canonical: str,
    extensions: Sequence[str | os.PathLike[str] | Extension],
    measure: bool,
    observed: Observed | None,
) -> Wishes:
    from hetsim.graph.input_files import arrays_of
    from hetsim.graph.preparation import Wishes

    arrays, label = (None, "") if inputs is None else arrays_of(inputs)
    return Wishes(
        dict(dims or {}),
        dict(shapes or {}),
        arrays,
        label,
        dict(freeze or {}),
        canonical,
        tuple(extensions),
        measure,
        observed,
    )


def _prepare(file: OnnxFile, name: str, source: str, wishes: Wishes) -> Model:
    from hetsim.graph.preparation import prepare

    return Model(**prepare(file, name, source, wishes))


def _read(source: str) -> tuple[str, OnnxFile]:
    from hetsim.graph import zoo
    from hetsim.graph.onnx_file import read_onnx

    if source.startswith(_ZOO):
        name = source.removeprefix(_ZOO)
        return name, read_onnx(zoo.materialise(name))
    if source in zoo.names() and not os.path.lexists(source):
        raise ModelError("no such file", where=source, hint=f"did you mean '{_ZOO}{source}'?")
    return Path(source).stem, read_onnx(Path(source))
