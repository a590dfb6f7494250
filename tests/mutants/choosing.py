"""Which tests may notice a mistake in a file: those of its folder, by how near they import it."""

from __future__ import annotations

import ast
import re
from collections import deque
from functools import cache
from pathlib import Path

_NAMED = re.compile(r"hetsim(\.\w+)+:\w+")
"""How registries name what they import once it is asked for."""

_FACE = Path("hetsim", "__init__.py")


@cache
def imports(path: Path, root: Path) -> tuple[Path, ...]:
    """Return the files of hetsim that a file imports, at its top or within functions.

    What it names, as registries do, or calls as a registry calls it, counts as well; of the
    package's face what it uses of that: ``hetsim.plan``.
    """
    found: dict[Path, None] = {}
    face = _face(root) if path != root / _FACE else {}
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "hetsim":
            names = [f"hetsim.{node.attr}"]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            first = node.value.partition(":")[0]
            names = [first] if _NAMED.fullmatch(node.value) else []
            names += _by_key(root).get(first, [])
        for name in names:
            file = root.joinpath(*name.split(".")).with_suffix(".py")
            for place in (file, root / "tests" / "helpers" / file.name, face.get(name)):
                if place is not None and place.is_file():
                    found[place] = None
    return tuple(found)


@cache
def _face(root: Path) -> dict[str, Path]:
    """The files that the names of the package's face are from: ``hetsim.plan``, by name."""
    path = root / _FACE
    tree = ast.parse(path.read_text() if path.is_file() else "")
    return {
        f"hetsim.{alias.name}": root.joinpath(*node.module.split(".")).with_suffix(".py")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


@cache
def _by_key(root: Path) -> dict[str, list[str]]:
    """Return the modules that registries name, by what users call them."""
    found: dict[str, list[str]] = {}
    for path in sorted(root.glob("hetsim/**/registry.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Dict):
                continue
            for key, value in zip(node.keys, node.values, strict=True):
                words = [one.value for one in (key, value) if isinstance(one, ast.Constant)]
                if len(words) == 2 and _NAMED.fullmatch(str(words[1])):
                    found.setdefault(str(words[0]), []).append(str(words[1]).partition(":")[0])
    return found


def chosen_for(path: Path, root: Path) -> list[str]:
    """Return the files of tests that may notice a mistake in `path`, the nearest first.

    Those of the package's folder: first what is called after the file, then by the length of the
    chain of imports between the two, of equals those of the file's own folder; and those of other
    folders that import the file itself.
    """
    folder = root / "tests" / path.relative_to(root).parts[1]
    own = root / "tests" / path.relative_to(root / "hetsim").parent
    ranked: list[tuple[bool, int, bool, bool, int, str]] = []
    for test in sorted(root.glob("tests/**/test_*.py")):
        hops = _hops(test, path, root)
        ours = folder in test.parents
        if hops == 1 or (ours and hops is not None):
            name = test.relative_to(root).as_posix()
            namesake = ours and test.stem == f"test_{path.stem}"
            beside = own in test.parents
            size = test.stat().st_size
            ranked.append((not namesake, hops or 0, not ours, not beside, size, name))
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
