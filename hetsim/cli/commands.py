"""Commands of click: verbs imported on first use, help by groups, no repeated options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from hetsim.errors import closest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


GROUPS: Mapping[str, str] = {
    "Question": "*max-rate *nodes *lint *strategies *method *run *explain *verify *schema *front "
    "*index *families *measure *budget *judge sensitivities fail-on device plain",
    "Platform": "*platform *catalog *max-devices *execute *what-if without runtime",
    "Model": "*shape *dim input freeze canonical extension",
    "Planning": "*strategy *objective *target *target-rate *priority affinity set placements",
    "Load": "*workload *rate *slo *batching *requests *concurrency duration think arrivals "
    "interval deployment instances routing speedup demand within",
    "Cost model": "cost profile measured pessimistic contention samples seed",
    "Failures": "*survive availability available inject mtbf mttr",
    "Memory and power": "sustained loading",
    "Money": "price tariff depreciation",
    "Execution": "*executor *emulate address time-scale timeout precision threads networks events",
    "Output": "*out *report *dot *mermaid *onnx trace certificate *json wide force quiet debug "
    "*completion *version help-all *help",
}
"""Options of all verbs under the titles of ``--help-all``; ``--help`` has the starred ones, too."""

RENAMED: Mapping[str, str] = {
    "--draws": "--samples",
    "--faster": "--speedup",
    "--interval-ms": "--interval",
    "--lifetime": "--depreciation",
    "--output": "--out",
    "--target-ms": "--target",
    "--think-ms": "--think",
}
"""Present name of each renamed option."""

_PLACES = {
    name.lstrip("*"): (at, title, name.startswith("*"))
    for at, (title, name) in enumerate(
        (title, name) for title, names in GROUPS.items() for name in names.split()
    )
}
"""Rank in the help, group, and whether it is common, by option."""

Example = tuple[str, str]
"""Command to copy, and the question that it answers."""


def _show_all(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[__name__] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class _Helped(click.Command):
    """Command whose ``--help`` has the common options and examples, ``--help-all`` the groups.

    `rare` names common options that are seldom needed with this command.
    """

    def __init__(
        self, *args: Any, examples: Sequence[Example] = (), rare: str = "", **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples, self.rare = examples, rare.split()
        if any(not self._place(option)[2] for option in self.params):
            told = "Show all options by group, and exit."
            self.params.append(
                click.Option(
                    ["--help-all"], is_flag=True, is_eager=True, expose_value=False,
                    callback=_show_all, help=told,
                )
            )  # fmt: skip

    def _place(self, param: click.Parameter) -> tuple[int, str, bool]:
        """Rank of an option, its group, and whether it is common."""
        if not isinstance(param, click.Option):
            return -1, "", True
        name = max(param.opts, key=len).removeprefix("--")
        rank, title, common = _PLACES[name]
        return rank, title, common and name not in self.rare

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the common options, or all of them under the titles of their groups."""
        everything = ctx.meta.get(__name__, False)
        found: dict[str, list[tuple[str, str]]] = {}
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        for option in sorted(options, key=self._place):
            _, title, common = self._place(option)
            line = option.get_help_record(ctx)
            if line is not None and (common or everything):
                written, told = line[0].replace("INTEGER RANGE", "N"), line[1]
                found.setdefault(title if everything else "Options", []).append((written, told))
        if isinstance(self, click.Group):
            self.format_commands(ctx, formatter)
        for title, lines in found.items():
            with formatter.section(title):
                formatter.write_dl(lines)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the examples, and the groups that have more options than ``--help`` shows."""
        if self.examples:
            with formatter.section("Examples"):
                for command, question in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{command}\n")
                    with formatter.indentation(), formatter.indentation():
                        formatter.write_text(question)
        places = sorted(self._place(param) for param in self.get_params(ctx))
        more = list(dict.fromkeys(title for _, title, common in places if not common))
        if more and not ctx.meta.get(__name__):
            formatter.write_paragraph()
            formatter.write_text(f"More options with --help-all: {', '.join(more)}.")


@dataclass(frozen=True, slots=True)
class Verb:
    """Module of a verb, its line in the help, and the title of its section."""

    home: str
    summary: str
    title: str = "Other"


class _Group(_Helped, click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb, or fail with the nearest name."""
        name, verbs = args[0], self.list_commands(ctx)
        if not ctx.resilient_parsing and name not in verbs and not name.startswith("-"):
            hint = closest(name, verbs)
            raise click.UsageError(f"no command '{name}'" + (f"; {hint}" if hint else ""), ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(_Group):
    """Group of verbs in the order given; each is imported on first use."""

    def __init__(self, *args: Any, verbs: Mapping[str, Verb], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs' names without importing any."""
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb and return it; None if there is none of that name."""
        verb = self.verbs.get(cmd_name)
        if verb is None:
            return None
        command: click.Command = getattr(import_module(verb.home), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from their data; click would import them all."""
        width = max(map(len, self.verbs))
        for title in dict.fromkeys(verb.title for verb in self.verbs.values()):
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (f"{name:{width}}", verb.summary)
                        for name, verb in self.verbs.items()
                        if verb.title == title
                    ]
                )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """Return the verbs, from their data, and the options of the group."""
        from click.shell_completion import CompletionItem

        verbs = [
            CompletionItem(name, help=verb.summary)
            for name, verb in self.verbs.items()
            if name.startswith(incomplete)
        ]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)


_INSTEAD = {
    "--platform": "`hetsim compare` takes a list, e.g. rock-5b,laptop",
    "--strategy": "`hetsim compare` takes several",
    "--method": "`--method all` compares them",
    "--priority": "write all devices in one list, e.g. npu,gpu,cpu",
}
"""Hints for options that are given twice."""


class Command(_Helped):
    """Command that refuses a second value for an option that takes one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and refuse repeated options; flags may be repeated."""
        if not ctx.resilient_parsing:
            _, _, given = self.make_parser(ctx).parse_args(list(args))
            options = [
                option
                for option in given
                if isinstance(option, click.Option)
                and not (option.multiple or option.is_flag or option.count)
            ]
            for option in options:
                if options.count(option) > 1:
                    name = max(option.opts, key=len)
                    hint = _INSTEAD.get(name, "leave one out")
                    raise click.UsageError(
                        f"'{name}' takes one value and is given twice; {hint}", ctx
                    )
        return super().parse_args(ctx, args)


class Family(_Group):
    """Group of such commands."""

    command_class = Command
