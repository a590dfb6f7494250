"""Commands whose options of one value may be given once: the last would win silently."""

from __future__ import annotations

import click

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
