"""``hetsim completion``: what a shell reads to complete the words of hetsim."""

from __future__ import annotations

from typing import Literal

import click

from hetsim.cli.commands import Command
from hetsim.cli.completing import SHELLS, script
from hetsim.cli.options.common import common_options


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
@common_options
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print what a shell reads to complete verbs, options, platforms, strategies and models.

    \b
    bash:  eval "$(hetsim completion bash)"   in ~/.bashrc
    zsh:   eval "$(hetsim completion zsh)"    in ~/.zshrc, behind compinit
    fish:  hetsim completion fish > ~/.config/fish/completions/hetsim.fish
    """
    root = click.get_current_context().find_root().command
    click.echo(script(root, shell), nl=False)
