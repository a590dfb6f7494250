"""Which tests may notice a mistake in a file: those of its folder, by how near they import it."""

from __future__ import annotations

import ast
from collections import deque
from functools import cache
from pathlib import Path


@cache
def imports(path: Path, root: Path) -> tuple[Path, ...]:
    """Return the files of hetsim that a file imports, at its top or within functions."""
    found: dict[Path, None] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            file = root.joinpath(*name.split(".")).with_suffix(".py")
            for place in (file, root / "tests" / "helpers" / file.name):
                if place.is_file():
                    found[place] = None
    return tuple(found)


def chosen_for(path: Path, root: Path) -> list[str]:
    """Return the files of tests that may notice a mistake in `path`, the nearest first.

    Those of the package's folder, by the length of the chain of imports between the two; and
    those of other folders that import the file itself.
    """
    folder = root / "tests" / path.relative_to(root).parts[1]
    ranked: list[tuple[int, bool, int, str]] = []
    for test in sorted(root.glob("tests/**/test_*.py")):
        hops = _hops(test, path, root)
        ours = folder in test.parents
        if hops == 1 or (ours and hops is not None):
            name = test.relative_to(root).as_posix()
            ranked.append((hops or 0, not ours, test.stat().st_size, name))
    return [name for *_, name in sorted(ranked)]


@cache
def _distances(test: Path, root: Path) -> dict[Path, int]:
    found = {test: 0}
    pending = deque([test])
    while pending:
        here = pending.popleft()
        for other in imports(here, root):
            if other not in found:
                found[other] = found[here] + 1
                pending.append(other)
    return found


def _hops(test: Path, path: Path, root: Path) -> int | None:
    return _distances(test, root).get(path)
