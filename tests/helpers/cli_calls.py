"""Calls of the command line, and what they print."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
from click.testing import CliRunner, Result

from hetsim.cli.main import main

PRICING_VERBS = [
    ("inspect",),
    ("partition",),
    ("partition", "--method", "all"),
    ("simulate",),
    ("compare", "--strategy", "heft"),
    ("run", "--executor", "threads"),
]
"""Verbs, of a model, that price it on a platform."""


def commands(group: click.Group = main, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Every verb, and every verb of a verb, with the words that name it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, *path, name)
        elif found is not None:
            yield " ".join((*path, name)), found


def call(*words: object) -> Result:
    """Call ``hetsim`` with these words."""
    return CliRunner().invoke(main, [str(word) for word in words])


def told(result: Result) -> dict[str, Any]:
    """Return the record that a call printed; it ended well."""
    assert result.exit_code == 0, result.stderr
    record: dict[str, Any] = json.loads(result.stdout)
    return record


def ok(*words: object) -> Result:
    """Call ``hetsim`` with these words; it ends well."""
    result = call(*words)
    assert result.exit_code == 0, result.stderr
    return result


def record_of(*words: object) -> dict[str, Any]:
    """Return the record that a call with these words prints; it ended well."""
    return told(call(*words, "--json"))


def refused(result: Result, code: int, *says: str) -> None:
    """It ended with this code and one line that says all this, and printed nothing else."""
    assert (result.exit_code, result.stdout) == (code, ""), result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    for part in says:
        assert part in result.stderr
