"""Options of every verb, and readers of option values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from hetsim.core.units import parse_per_s, parse_seconds

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Decorator = Callable[[Decorated], Decorated]
Item = TypeVar("Item")


def sizes(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> dict[str, int]:
    """Read ``NAME=N`` values, N a whole number."""

    def one(text: str) -> tuple[str, int]:
        name, _, size = text.rpartition("=")
        number = whole_number(size)
        if not name or number is None:
            raise ValueError(f"'{text}' is not NAME=N with N a whole number, e.g. batch=1")
        return name, number

    return by_name(ctx, param, given, one)


def shapes(
    ctx: click.Context, param: click.Parameter, given: Sequence[str]
) -> dict[str, tuple[int, ...]]:
    """Read ``NAME=D,D,...`` values: an input and all its dimensions."""

    def one(text: str) -> tuple[str, tuple[int, ...]]:
        name, _, dims = text.rpartition("=")
        shape = [whole_number(dim) for dim in dims.split(",")]
        if not name or None in shape:
            raise ValueError(f"'{text}' is not NAME=D,D,... with whole numbers, e.g. x=1,3,224,224")
        return name, tuple(dim for dim in shape if dim is not None)

    return by_name(ctx, param, given, one)


def duration(*, zero: bool = False) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return the parser of a duration with its unit to seconds: above 0, or from 0 with `zero`."""

    def read(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
        if text is None:
            return None
        seconds = 0.0 if _number(text) == 0 else parse_seconds(text)
        if seconds is None:
            unit = (
                " has no unit; write" if _number(text) is not None else " is not a duration; write"
            )
            forms = ", ".join(f"{_number(text) or 10:g}{one}" for one in ("s", "ms", "min"))
            raise click.BadParameter(f"'{text}'{unit} e.g. {forms}", ctx, param)
        if not (math.isfinite(seconds) and (seconds > 0 or zero)):
            raise click.BadParameter(f"'{text}' is not above 0; write e.g. 10s", ctx, param)
        return seconds

    return read


def per_second(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Read a rate above 0, if one is given: ``100/s``, ``30/min``, or a number per second."""
    if text is None:
        return None
    rate = parse_per_s(text)
    if rate is None or not 0 < rate < math.inf:
        message = f"'{text}' is not a rate above 0; write e.g. 100/s, 30/min or 100"
        raise click.BadParameter(message, ctx, param)
    return rate


@dataclass(frozen=True, slots=True)
class Limit:
    """Limit of a duration in seconds, or of a share; `text` as it was written."""

    text: str
    amount: float
    share: bool


def limit(ctx: click.Context, param: click.Parameter, text: str | None) -> Limit | None:
    """Read ``5%`` or ``2ms``."""
    if text is None:
        return None
    percent = _number(text.strip().removesuffix("%")) if text.strip().endswith("%") else None
    amount = parse_seconds(text) if percent is None else percent / 100
    if amount is None or amount < 0:
        raise click.BadParameter(
            f"'{text}' is not a duration or a percentage; write e.g. 2ms or 5%", ctx, param
        )
    return Limit(text, amount, share=percent is not None)


def above_zero(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    """Read a finite number above 0, if one is given."""
    if text is None:
        return None
    number = _number(text)
    if number is None or number <= 0:
        raise click.BadParameter(f"'{text}' is not a finite number above 0", ctx, param)
    return number


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def whole_number(text: str) -> int | None:
    """Return the non-negative integer that `text` writes in plain digits, else None."""
    text = text.strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        return None
    return int(text)


def by_name(
    ctx: click.Context,
    param: click.Parameter,
    given: Sequence[str],
    read: Callable[[str], tuple[str, Item]],
) -> dict[str, Item]:
    """Return the (name, value) pairs that `read` gives; each name may come once."""
    found: dict[str, Item] = {}
    for text in given:
        try:
            name, value = read(text)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None
        if name in found:
            raise click.BadParameter(f"'{name}' is given twice", ctx, param)
        found[name] = value
    return found


def all_of(*options: Decorator[Any]) -> Decorator[Any]:
    """Return the decorator that adds all `options`, the first of them first in the help."""

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def stored(
    *names: str,
    read: Callable[[click.Context, click.Parameter, Any], Any] | None = None,
    **about: Any,
) -> Decorator[Any]:
    """Return an option whose value, parsed by `read`, goes to ``current()`` instead of the verb."""

    def keep(ctx: click.Context, param: click.Parameter, given: Any) -> None:
        value = given if read is None else read(ctx, param, given)
        setattr(ctx.find_root().obj, str(param.name), value)

    return click.option(*names, expose_value=False, callback=keep, **about)


def common_options(command: Decorated) -> Decorated:
    """Add --debug and --quiet, which may stand before or after the verb."""

    def set_flag(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            setattr(ctx.find_root().obj, str(param.name), True)

    flags = {
        ("--debug",): "Print the traceback of an error.",
        ("-q", "--quiet"): "Print no progress and no notes on stderr.",
    }
    for names, told in flags.items():
        command = click.option(
            *names, is_flag=True, is_eager=True, expose_value=False, callback=set_flag, help=told
        )(command)
    return command


json_option = stored("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")

verb_options = all_of(json_option, common_options)
"""Options of every verb that answers."""

wide_option = click.option(
    "--wide",
    is_flag=True,
    help="Print all columns and one line for each device (120 columns wide).",
)

report_option = stored(
    "--report",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the answer with charts to one HTML file.",
)


def force_option(what: str) -> Decorator[Any]:
    """Return --force, which overwrites existing files; `what` is its help."""
    return stored("--force", is_flag=True, help=what)


report_options = all_of(report_option, force_option("Overwrite the file of --report."))
"""Options of verbs that write only a report."""

output_options = all_of(
    stored(
        "--trace",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write a Chrome trace; ui.perfetto.dev opens it.",
    ),
    stored(
        "-o",
        "--out",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Write plan.json, result.json, trace.json and manifest.json to a new folder.",
    ),
    report_option,
    force_option("Overwrite the files of --trace, --out and --report."),
)
"""Options of verbs that write files."""
