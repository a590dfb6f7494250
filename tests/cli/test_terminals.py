"""What is printed suits where it goes: colours where they are wanted, and widths that are there."""

from __future__ import annotations

import re
import shlex

import pytest

from cli.test_widths import ANSWERS
from sweeps import sweep
from terminals import ESCAPES, shown

COLOUR = re.compile(r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|[34]8;[25])[0-9;]*m")
COMMAND = "compare zoo:squeezenet --platform laptop --strategy heft --samples 0"
"""Whose best row is green on a terminal."""


@pytest.mark.sweep
def test_a_terminal_has_colours_and_its_width() -> None:
    done = shown(*COMMAND.split(), columns=90)
    assert done.code == 0
    assert COLOUR.search(done.out)
    assert max(map(len, done.plain.splitlines())) <= 90


@pytest.mark.sweep
@sweep(
    "env, out, coloured, steered",
    quick=[({"NO_COLOR": "1"}, True, False, True)],
    full=[
        ({"NO_COLOR": "1"}, True, False, True),
        ({"TERM": "dumb"}, True, False, False),
        ({}, False, False, False),
        ({"FORCE_COLOR": "1"}, False, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False, True),
    ],
)
def test_colours_are_where_they_are_wanted(
    env: dict[str, str], out: bool, coloured: bool, steered: bool
) -> None:
    done = shown(*COMMAND.split(), out=out, env=env)
    assert done.code == 0
    assert bool(COLOUR.search(done.out)) == coloured
    assert ("\x1b" in done.out) == steered


@pytest.mark.sweep
def test_a_pipe_is_as_wide_whatever_terminal_there_is() -> None:
    texts = {shown("zoo", "list", columns=columns, out=False).out for columns in (40, 80, 200)}
    assert len(texts) == 1
    [text] = texts
    assert all(line == line.rstrip() for line in text.splitlines())


@sweep("encoding", quick=[], full=["ascii", "latin-1", "utf-8"])
def test_an_encoding_that_lacks_lines_gets_others(encoding: str) -> None:
    done = shown("zoo", "list", out=False, err=False, env={"PYTHONIOENCODING": encoding})
    assert (done.code, done.err) == (0, "")
    assert "\\u" not in done.out
    assert done.out.isascii() == (encoding != "utf-8")


@pytest.mark.sweep
@pytest.mark.parametrize("command", ANSWERS)
@pytest.mark.parametrize("columns", [80, 40])
def test_every_answer_on_a_terminal(command: str, columns: int) -> None:
    done = shown(*shlex.split(command), columns=columns)
    assert done.code == 0, done.err
    lines = [line.rstrip() for line in done.plain.splitlines()]
    assert "\N{HORIZONTAL ELLIPSIS}" not in done.plain
    if columns == 80:
        assert max(map(len, lines)) <= 80
    # No column is so narrow that what is in it stands in pieces of a letter or two.
    pieces = 0
    for line in lines:
        pieces = pieces + 1 if re.fullmatch(r"\S{1,3}", line) else 0
        assert pieces < 3, line
    assert ESCAPES.sub("", done.err).strip() == "" or "\x1b[2K" in done.err
