"""Commands of click: verbs that are imported on first use, and options that may be given once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from hetsim.errors import nearest

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb lives (``module:attribute``), and its one line in the help."""

    home: str
    summary: str


class LazyGroup(click.Group):
    """Verbs in the order given; each is imported on first use."""

    def __init__(self, *args: object, verbs: Mapping[str, Verb], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs' names without importing any."""
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb and return it; None where there is none of that name."""
        verb = self.verbs.get(cmd_name)
        if verb is None:
            return None
        module, _, attribute = verb.home.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs from their data, where click would import them all."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in self.verbs.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
        """Offer the verbs by their data, and the options of the group."""
        from click.shell_completion import CompletionItem

        verbs = [
            CompletionItem(name, help=verb.summary)
            for name, verb in self.verbs.items()
            if name.startswith(incomplete)
        ]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb, or fail with the nearest name."""
        name = args[0]
        told = not ctx.resilient_parsing
        if told and name not in self.verbs and not name.startswith("-"):
            raise click.UsageError(f"no command '{name}'; {nearest(name, self.verbs)}", ctx)
        return super().resolve_command(ctx, args)


_INSTEAD = {
    "--platform": "call hetsim once a platform",
    "--strategy": "`hetsim compare` takes several",
    "--method": "`--method all` compares them",
    "--priority": "write all devices in one list, e.g. npu,gpu,cpu",
}
"""What a user may have meant who gives one of these twice."""


class Command(click.Command):
    """A command that refuses a second value for an option that takes one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words, and refuse what is given twice; flags may be repeated."""
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


class Family(click.Group):
    """A group of such commands."""

    command_class = Command
