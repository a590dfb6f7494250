"""What is still open of a model, told all at once, with what binds it."""

from __future__ import annotations

from hetsim.errors import UnboundDimension
from hetsim.graph.graph import ITEM_BITS, Graph


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
    """Return the options that bind all that is open in the inputs; empty where nothing is."""
    flags = [_dim_flag(dim) for dim in open_dims(graph)]
    flags.extend(f"--shape {name}=N,N,..." for name in open_ranks(graph))
    return " ".join(flags)


def _dim_flag(dim: str) -> str:
    # Brackets mean something to shells.
    plain = all(c.isalnum() or c in "._-/:" for c in dim)
    return f"--dim {dim}=N" if plain else f"--dim '{dim}=N'"


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
        every = " (--dim '*=1' binds every one)" if len(dims) > 1 else ""
        return UnboundDimension(
            ", and ".join(parts),
            where=source,
            hint=f"give {binding_flags(graph)}{every}, or --input FILE.npz",
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
