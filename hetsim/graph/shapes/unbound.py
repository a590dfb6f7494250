"""What is still open of a model, told all at once, with what binds it."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from hetsim.errors import UnboundDimension
from hetsim.graph.graph import ITEM_BITS, Graph

MOST_SHAPES = 4
"""Inputs of open shapes above which only dimensions are told: they share them, as caches do."""


def open_dims(graph: Graph) -> tuple[str, ...]:
    """Return the open dims of the inputs of `graph`: their names, or places as ``x[2]``."""
    found: dict[str, None] = {}
    for name in graph.inputs:
        for axis, dim in enumerate(graph.tensors[name].shape or ()):
            if not isinstance(dim, int):
                found.setdefault(dim or f"{name}[{axis}]")
    return tuple(found)


def open_ranks(graph: Graph) -> tuple[str, ...]:
    """Return the inputs of `graph` that are tensors of unknown rank."""
    tensors = (graph.tensors[name] for name in graph.inputs)
    return tuple(
        t.name for t in tensors if t.shape is None and (t.dtype in ITEM_BITS or t.dtype == "string")
    )


def binding_flags(graph: Graph) -> str:
    """Options that bind all that is open in the inputs: by shape, or by dimension; else empty."""
    shapes = [
        f"--shape {quote(name + '=' + ','.join(_shown(graph.tensors[name].shape or ())))}"
        for name in graph.inputs
        if any(not isinstance(dim, int) for dim in graph.tensors[name].shape or ())
    ]
    dims = [f"--dim {quote(f'{dim}=N')}" for dim in open_dims(graph)]
    ranks = [f"--shape {name}=N,N,..." for name in open_ranks(graph)]
    ways = [shapes, dims] if 0 < len(shapes) <= MOST_SHAPES else [dims]
    return " or ".join(" ".join([*way, *ranks]) for way in ways)


def _shown(shape: Iterable[int | str | None]) -> list[str]:
    return [str(dim) if isinstance(dim, int) else "N" for dim in shape]


def unbound(graph: Graph, source: str, unmeasured: str | None) -> UnboundDimension:
    """Return the error that says what of a model's shapes is open, and what binds all of it.

    `unmeasured` is why no run could measure the rest.
    """
    dims, ranks = open_dims(graph), open_ranks(graph)
    if dims or ranks:
        parts = []
        if dims:
            few = "a dimension of its inputs is" if len(dims) == 1 else "dimensions are"
            parts.append(f"{few} not bound: {', '.join(dims)}")
        if ranks:
            parts.append(f"the shape of {', '.join(ranks)} is not known")
        return UnboundDimension(
            ", and ".join(parts),
            where=source,
            hint=f"give the sizes that the model is used with: {binding_flags(graph)}, or "
            "--input FILE.npz",
            dims=tuple(dims),
        )
    shown = ", ".join(
        f"{name} {graph.tensors[name].dtype} {list(graph.tensors[name].shape or ())}"
        for name in graph.inputs[:8]
    )
    more = ", ..." if len(graph.inputs) > 8 else ""
    return UnboundDimension(
        "some of its shapes depend on data or on ops that no inference knows, and "
        + (unmeasured or "no run measured them"),
        where=source,
        hint=f"give inputs that it accepts: --input FILE.npz with {shown}{more}"
        if graph.inputs
        else "mend the model, it does not run",
    )
