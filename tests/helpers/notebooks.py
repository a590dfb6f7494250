"""Notebooks: run in a fresh kernel, and what they print compared with what they show.

``python tests/helpers/notebooks.py NOTEBOOK...`` runs them and keeps the outputs; ``--check``
compares texts, and how many pictures each cell shows: their bytes are the drawing library's.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import nbformat
from nbclient import NotebookClient


def executed(path: Path) -> Any:
    """Return a notebook as it is after it ran from the top, without the times of the run.

    Raises:
        CellExecutionError: Of a cell that fails.
    """
    book = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": str(path.parent)}}
    NotebookClient(book, timeout=600, resources=folder).execute()
    for cell in book.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", ()):
            output.get("metadata", {}).clear()
    book.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return book


def shown(book: Any) -> list[list[str]]:
    """Return by cell of code the texts that it prints, and the kinds of what else it shows."""
    found = []
    for cell in book.cells:
        if cell.cell_type != "code":
            continue
        told = []
        for output in cell.outputs:
            if output.output_type == "stream":
                told.append(output.text)
            elif "image/png" in output.data:
                told.append("image/png")
            else:
                told.append(str(output.data.get("text/plain")))
        found.append(told)
    return found


@click.command()
@click.argument("books", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--check", is_flag=True, help="Compare, and write nothing.")
def run(books: tuple[Path, ...], check: bool) -> None:
    """Run notebooks, and keep what they show."""
    wrong = False
    for path in books:
        book = executed(path)
        if not check:
            nbformat.write(book, path)
            continue
        before, now = shown(nbformat.read(path, as_version=4)), shown(book)
        if before != now:
            wrong = True
            click.echo(f"{path}: shows\n{before}\nnow\n{now}", err=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    run()
