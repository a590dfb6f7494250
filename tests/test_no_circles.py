"""No module of hetsim imports itself by way of others, and no class name stands twice."""

from __future__ import annotations

import ast
from pathlib import Path

import networkx as nx
import pytest

import hetsim

ROOT = Path(hetsim.__file__).parent


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of `known` that a file imports, wherever in it the import stands."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            named.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None, f"{path}:{node.lineno} imports by a relative name"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                named.add(full if full in known else node.module)
    return named & known.keys()


@pytest.mark.sweep
def test_no_file_imports_itself_by_way_of_others() -> None:
    known = modules()
    assert len(known) > 300
    graph: nx.DiGraph[str] = nx.DiGraph()
    for name, path in known.items():
        graph.add_edges_from((name, other) for other in imported(path, known) - {name})
    circles = [sorted(part) for part in nx.strongly_connected_components(graph) if len(part) > 1]
    assert circles == []


@pytest.mark.sweep
def test_no_class_name_stands_twice() -> None:
    homes: dict[str, list[str]] = {}
    for name, path in modules().items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}
