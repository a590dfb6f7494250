"""Where tests run on other Pythons: these are found, and nothing is passed over without a word."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import elsewhere

ROOT = Path(__file__).parents[1]


def test_there_is_a_version_for_all_that_is_asked_for_and_it_is_allowed() -> None:
    """Constraints name each direct dependency, at its lower bound or above."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    asked = [*project["dependencies"], *(one for extra in extras for one in extra)]
    pinned: dict[str, list[str]] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, version = line.partition(";")[0].strip().partition("==")
            pinned.setdefault(_plain(name), []).append(version)
    for one in asked:
        match = re.match(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", one)
        assert match is not None, one
        name, least = match.groups()
        for version in pinned[_plain(name)]:
            assert _numbers(version) >= _numbers(least), one
    assert elsewhere.CORE
    assert all((ROOT / path).exists() for path in elsewhere.CORE)


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
