"""Files of a line a point, of comma-separated cells: the same text for the same points."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hetsim.errors import UsageError


@dataclass(frozen=True, slots=True)
class Lines:
    """A kind of file.

    Attributes
    ----------
    what : str
        Its points, in words.
    made_by : str
        The command that writes it.
    columns : tuple of str
    """

    what: str
    made_by: str
    columns: tuple[str, ...]

    def text(self, rows: Iterable[Sequence[object]]) -> str:
        """Return the file of rows of cells, each in the order of the columns."""
        out = io.StringIO()
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(self.columns)
        lines.writerows(rows)
        return out.getvalue()

    def read(self, path: Path) -> list[dict[str, str]]:
        """Read a file: the cells of each line by column.

        Raises
        ------
        UsageError
            Where there is none, or it has other columns.
        """
        if not path.is_file():
            raise UsageError(
                f"there are no {self.what}", where=str(path), hint=f"'{self.made_by}' writes them"
            )
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file)
            if tuple(lines.fieldnames or ()) != self.columns:
                raise UsageError(
                    "the file has other columns",
                    where=str(path),
                    hint=f"'{self.made_by}' writes it anew",
                )
            return list(lines)


def cell(value: float | None) -> str:
    """Return a figure with five digits; None is empty."""
    return "" if value is None else f"{value:.5g}"


def figure(told: str) -> float | None:
    """Return the figure of a cell; None where it is empty."""
    return float(told) if told else None
