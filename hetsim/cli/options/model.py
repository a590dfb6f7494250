"""Options that say how a model is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetsim.cli.options.values import all_of, by_name, kept, shapes, sizes

if TYPE_CHECKING:
    from hetsim.graph.reading.extension import Extension


def _inputs(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> Mapping[str, Any] | str | None:
    """Take ``FILE.npz``, all inputs in one file, or ``NAME=FILE.npy`` for each of them."""
    if not given or ctx.resilient_parsing:
        return None

    def one(text: str) -> tuple[str, Path]:
        name, _, path = text.partition("=")
        if not name or not path:
            raise ValueError(f"'{text}' is not NAME=FILE.npy, e.g. x=image.npy, and no FILE.npz")
        return name, Path(path)

    if any(text.endswith(".npz") for text in given):
        if len(given) > 1:
            raise click.BadParameter(
                "a .npz file holds all inputs: give it alone, or NAME=FILE.npy for each", ctx, param
            )
        return given[0]
    from hetsim.graph.inputs.arrays import read_npy

    return {
        name: read_npy(path, f"--input {name}={path}")
        for name, path in by_name(ctx, param, given, one).items()
    }


def _frozen(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, object]:
    """Read ``NAME=VALUE`` values: a number, true or false, a list of them, or text."""
    import json

    def one(text: str) -> tuple[str, object]:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise ValueError(f"'{text}' is not NAME=VALUE, e.g. sr=16000")
        try:
            return name, json.loads(value)
        except ValueError:
            return name, value

    return by_name(ctx, param, given, one)


def _extensions(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> tuple[Extension, ...]:
    # A shell that asks for completions loads no library.
    if not given or ctx.resilient_parsing:
        return ()
    from hetsim.graph.reading.extension import load_extension

    return tuple(load_extension(text) for text in given)


model_options = all_of(
    click.option(
        "--dim",
        "dims",
        metavar="NAME=N",
        multiple=True,
        expose_value=False,
        callback=kept(sizes),
        help="Bind an open dimension, e.g. --dim batch=1, 'x[2]=48', or '*=64': all. Where the "
        "file has 1 request, 'x[0]=8' makes it 8 at once. Repeatable.",
    ),
    click.option(
        "--shape",
        "shapes",
        metavar="NAME=D,D,...",
        multiple=True,
        expose_value=False,
        callback=kept(shapes),
        help="Set an input's shape, e.g. --shape x=1,3,224,224. Repeatable.",
    ),
    click.option(
        "--input",
        "inputs",
        metavar="FILE.npz|NAME=FILE.npy",
        multiple=True,
        expose_value=False,
        callback=kept(_inputs),
        help="The inputs; they bind dimensions, and a run that measures shapes is on them.",
    ),
    click.option(
        "--freeze",
        "frozen",
        metavar="NAME=VALUE",
        multiple=True,
        expose_value=False,
        callback=kept(_frozen),
        help="Make an input constant, e.g. --freeze sr=16000. Repeatable.",
    ),
    click.option(
        "--canonical",
        type=click.Choice(["none", "basic", "extended"]),
        expose_value=False,
        callback=kept(),
        help="How far ONNX Runtime may rewrite the graph first.  [default: basic; none above "
        "30,000 nodes]",
    ),
    click.option(
        "--extension",
        "extensions",
        metavar="FILE",
        multiple=True,
        expose_value=False,
        callback=kept(_extensions),
        help="Custom ops: BODIES.onnx, LIBRARY or LIBRARY=BODIES.onnx. Repeatable.",
    ),
)
"""How a model is read."""
