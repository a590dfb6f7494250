"""Print how much of the lines and branches of each package a run reached.

``make coverage`` calls it with the report of its run. What runs as machine code, and in processes
that tests start (Ray's, command lines), is not seen.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

FEWEST = 15
"""So many files, of those with most lines unreached, are named."""

_COUNTS = ("covered_lines", "num_statements", "covered_branches", "num_branches")


def rows(report: Mapping[str, Any]) -> list[str]:
    """A line for each package, for all, and for the files with most lines unreached."""
    files: dict[str, Mapping[str, int]] = {
        name: entry["summary"] for name, entry in sorted(report["files"].items())
    }
    packages: dict[str, list[Mapping[str, int]]] = {}
    for name, counts in files.items():
        packages.setdefault("/".join(name.split("/")[:2]), []).append(counts)
    by_missing = sorted(files, key=lambda name: -files[name]["missing_lines"])
    worst = [name for name in by_missing[:FEWEST] if files[name]["missing_lines"]]
    return [
        f"{'lines':>8} {'of':>6} {'branches':>9} {'of':>6}",
        *(_row(name, counts) for name, counts in packages.items()),
        _row("all", files.values()),
        "the files with most lines unreached:",
        *(_row(name, [files[name]]) for name in worst),
    ]


def _row(name: str, counts: Iterable[Mapping[str, int]]) -> str:
    each = list(counts)
    lines, of_lines, branches, of_branches = (sum(count[key] for count in each) for key in _COUNTS)
    return (
        f"{_percent(lines, of_lines):>8} {of_lines:>6}"
        f" {_percent(branches, of_branches):>9} {of_branches:>6}  {name}"
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"


if __name__ == "__main__":
    print("\n".join(rows(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
