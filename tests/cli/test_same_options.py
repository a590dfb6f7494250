"""An option has one form and one meaning in every command that has it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import click

from hetsim.cli.main import main

OWN_WORDS = {
    "--address": "a run joins a cluster, a check asks one too",
    "--affinity": "a partition heeds its default and priority too",
    "--draws": "on what is played again",
    "--executor": "who answers the points of a sweep",
    "--explain": "of two nodes in a partition, of the best plan in a comparison",
    "--force": "what it lets be replaced",
    "--objective": "what plans are for, or what a platform is chosen by",
    "--out": "what the folder holds; of a placement a file, of nodes several",
    "--output": "the file of a device, or of a report",
    "--requests": "of a run with --emulate alone",
    "--schema": "of a grid's file, of what nodes are told as",
    "--set": "rules of a partition, options of strategies",
    "--survive": "of a deployment, of a platform that is looked for",
    "--strategy": "one to plan by, several to compare",
}
"""Options whose help differs from command to command, and in what."""


Found = tuple[str, click.Command]


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[Found]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))
    else:
        yield " ".join(path), command


def test_options_of_one_name_are_one_option() -> None:
    forms: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for _, command in commands(main):
        for option in command.params:
            if isinstance(option, click.Option):
                name = max(option.opts, key=len)
                choices = tuple(getattr(option.type, "choices", ()))
                kind = (option.type.name, choices, option.metavar, option.is_flag, option.help)
                forms[name].add(kind)
    several = {name for name, kinds in forms.items() if len(kinds) > 1}
    assert several == set(OWN_WORDS)
    for name in several - {"--executor", "--explain", "--objective", "--out"}:
        assert len({kind[:-1] for kind in forms[name]}) == 1, name
    # The points of a sweep share a Ray, or one process: what runs a plan can do that and more.
    (_, few, *_), (_, all_of_them, *_) = sorted(
        forms["--executor"], key=lambda kind: len(str(kind[1]))
    )
    assert [name for name in all_of_them if name in few] == list(few)


def test_numbers_of_time_have_a_unit_in_their_name_or_their_form() -> None:
    for path, command in commands(main):
        for option in command.params:
            if isinstance(option, click.Option) and (option.name or "").endswith(("_s", "_ms")):
                unit = {"s": "SECONDS", "ms": "MS"}[str(option.name).rsplit("_", 1)[1]]
                assert option.metavar == unit, f"{path} {option.name}"
