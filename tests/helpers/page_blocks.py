"""The blocks of a page of documents: run in order in one folder, and what they print compared.

A fence ``console`` holds commands (``$ hetsim ...``) with what they print; ``python`` runs in one
namespace for the page, and what it prints stands in the fence ``output`` after it; any fence with
``title="NAME"`` is written to that file. Other fences are not run. ``...`` in a line of what is
shown stands for any text, as times of the wall clock; a line of it alone for how such a line goes
on, indented. A command that fails shows what it says and its exit code.

``python tests/helpers/page_blocks.py PAGE...`` writes what is printed into the pages; ``--check``
compares.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import click
from click.testing import CliRunner

from hetsim.cli.main import main as hetsim

FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COLUMNS = "80"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, the file that it is, its text, and where that stands."""

    language: str
    file: str | None
    text: str
    start: int
    end: int


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    found = []
    for fence in FENCE.finditer(page):
        title = re.search(r'title="([^"]+)"', fence[2])
        found.append(Block(fence[1], title and title[1], fence[3], fence.start(3), fence.end(3)))
    return found


def printed_by(page: str) -> Iterator[tuple[Block, str]]:
    """Run a page in the current folder: each block that shows output, with what it should hold.

    Raises:
        AssertionError: What a block prints is shown nowhere, or its language is not known here.
        Exception: What a block raises.
    """
    space: dict[str, object] = {"__name__": "__page__"}
    said = ""
    for block in blocks_of(page):
        if block.file is not None:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.text)
        elif block.language == "console":
            assert said == "", f"what is printed is shown nowhere: {said!r}"
            yield block, "".join(_console(block.text))
        elif block.language == "python":
            assert said == "", f"what is printed is shown nowhere: {said!r}"
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(block.text, "page", "exec"), space)
            said = out.getvalue()
        elif block.language == "output":
            yield block, said
            said = ""
        else:
            assert block.language in ("", "yaml", "text", "mermaid", "toml"), block.language
    assert said == "", f"what is printed is shown nowhere: {said!r}"


def _console(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.startswith("$ "):
            continue
        yield line + "\n"
        words = shlex.split(line[2:], comments=True)
        assert words[0] == "hetsim", f"not a command of hetsim: {line}"
        done = CliRunner().invoke(hetsim, words[1:])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        shown = done.stdout if done.exit_code == 0 else done.output
        yield from (f"{row.rstrip()}\n" for row in shown.splitlines())
        if done.exit_code != 0:
            yield f"(exit code {done.exit_code})\n"


def alike(shown: str, printed: str) -> bool:
    """Return whether what is shown is what was printed, as far as it is not left open."""
    return re.fullmatch(_pattern(shown), printed) is not None


def _pattern(shown: str) -> str:
    """``...`` in a line is any text; a line of nothing else, the indented ones that go on there."""
    return "".join(
        "(?: .*\n)*"
        if line.strip() == "..."
        # A longer time, 53.1 for 9.5 ms, may push the rest of its line onto the next one.
        else ".*".join(map(re.escape, line.split("...")))
        + (r"(\n {10,}.*)?\n" if line.endswith("...") else "\n")
        for line in shown.splitlines()
    )


def _with_open(shown: str, printed: str) -> str:
    """What was printed, with the lines of what is shown that leave something open."""
    for lines in re.findall(r"(?m)(?:^.*\.\.\..*\n)+", shown):
        printed = re.sub("(?m)^" + _pattern(lines), lambda _, new=lines: new, printed, count=1)
    return printed


@contextlib.contextmanager
def folder_for(page: Path) -> Iterator[None]:
    """Stand in a fresh folder while a page is run, with the columns that pages are told in."""
    made = tempfile.TemporaryDirectory(prefix=f"hetsim-{page.stem}-")
    with made as name, contextlib.chdir(name), patch.dict(os.environ, COLUMNS=COLUMNS):
        yield


def differences(path: Path) -> list[tuple[str, str]]:
    """Return what a page shows and what is printed, where they are not alike."""
    page = path.read_text()
    with folder_for(path):
        pairs = [(block.text, out) for block, out in printed_by(page)]
    return [(shown, out) for shown, out in pairs if not alike(shown, out)]


def renewed(path: Path) -> str:
    """Return a page with what its blocks print.

    Raises:
        AssertionError: A line that leaves something open is printed otherwise now.
    """
    page = path.read_text()
    with folder_for(path):
        pairs = list(printed_by(page))
    for block, out in reversed(pairs):
        if not alike(block.text, out):
            text = _with_open(block.text, out)
            assert text.count("...") >= block.text.count("..."), (
                f"{path}: write this block, with its '...', by hand:\n{out}"
            )
            page = page[: block.start] + text + page[block.end :]
    return page


@click.command()
@click.argument("pages", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--check", is_flag=True, help="Compare, and write nothing.")
def run(pages: tuple[Path, ...], check: bool) -> None:
    """Run the blocks of pages, and write what they print into them."""
    wrong = False
    for path in pages:
        if not check:
            path.write_text(renewed(path))
            continue
        for shown, out in differences(path):
            wrong = True
            click.echo(f"{path}: shown\n{shown}\nprinted\n{out}", err=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    run()
