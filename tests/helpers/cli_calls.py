"""Calls of the command line, and what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from click.testing import CliRunner, Result

from hetsim.cli.main import main

Cli = Callable[..., Result]
"""What the fixture ``cli`` gives: words in, result out."""

PRICING_VERBS = [
    ("inspect",),
    ("partition",),
    ("partition", "--method", "all"),
    ("simulate",),
    ("compare", "--strategy", "heft"),
    ("run", "--executor", "threads"),
]
"""Verbs, of a model, that price it on a platform."""


def call(*words: object) -> Result:
    """Call ``hetsim`` with these words."""
    return CliRunner().invoke(main, [str(word) for word in words])


def told(result: Result) -> dict[str, Any]:
    """Return the record that a call printed; it ended well."""
    assert result.exit_code == 0, result.stderr
    record: dict[str, Any] = json.loads(result.stdout)
    return record
