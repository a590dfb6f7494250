"""Notebooks: run in a fresh kernel, and what they print compared with what they show.

``python tests/helpers/notebooks.py NOTEBOOK...`` runs them and keeps the outputs; ``--check``
compares texts, and how many pictures each cell shows: their bytes are the drawing library's.
Pictures of plotly's are kept as a browser draws them, which sites and viewers show without scripts;
without Chromium and playwright they stay as plotly's JSON.
"""

from __future__ import annotations

import base64
import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import nbformat
from nbclient import NotebookClient

from browsing import chromium

PLOTLY = "application/vnd.plotly.v1+json"


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
            elif {"image/png", PLOTLY} & output.data.keys():
                told.append("picture")
            else:
                told.append(str(output.data.get("text/plain")))
        found.append(told)
    return found


def draw(book: Any) -> None:
    """Put pictures in the place of figures of plotly's, where a browser is there to draw them."""
    shows = [one for cell in book.cells for one in cell.get("outputs", ()) if "data" in one]
    shows = [one for one in shows if PLOTLY in one.data]
    found = chromium()
    if not shows or found is None:
        return
    from playwright.sync_api import sync_playwright

    script = (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 900, "height": 420}, color_scheme="light")
        tab.set_content("<div id='figure' style='width: 880px; height: 400px'></div>")
        tab.add_script_tag(content=script)
        for one in shows:
            figure = json.dumps(one.data.pop(PLOTLY))
            tab.evaluate(f"(one => Plotly.newPlot('figure', one.data, one.layout))({figure})")
            picture = tab.locator("#figure").screenshot()
            one.data["image/png"] = base64.b64encode(picture).decode("ascii")
        browser.close()


@click.command()
@click.argument("books", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--check", is_flag=True, help="Compare, and write nothing.")
def run(books: tuple[Path, ...], check: bool) -> None:
    """Run notebooks, and keep what they show."""
    wrong = False
    for path in books:
        book = executed(path)
        if not check:
            draw(book)
            nbformat.write(book, path)
            continue
        before, now = shown(nbformat.read(path, as_version=4)), shown(book)
        if before != now:
            wrong = True
            click.echo(f"{path}: shows\n{before}\nnow\n{now}", err=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    run()
