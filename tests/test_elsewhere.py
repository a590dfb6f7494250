"""Where tests run on other Pythons: these are found, and nothing is passed over without a word."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

import elsewhere

ROOT = Path(__file__).parents[1]
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def test_a_stand_in_is_no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin" / f"python{HERE}"
    stand_in.write_text("#!/bin/sh\necho no such version >&2\nexit 127\n")
    stand_in.chmod(0o755)
    real = tmp_path / "pyenv" / "versions" / f"{HERE}.99" / "bin" / "python"
    real.parent.mkdir(parents=True)
    real.symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert elsewhere.interpreter(HERE) == real
    assert elsewhere.interpreter("3.99") is None
    assert elsewhere.interpreter("lowest") == Path(sys.executable)


def test_what_is_not_installed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert elsewhere.run(["3.99"]) == 0
    assert "Python 3.99 is not installed here, and not tried" in capsys.readouterr().out


def test_what_fails_in_a_place_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        elsewhere, "steps", lambda place, _: [[sys.executable, "-c", f"exit({place != HERE})"]]
    )
    assert elsewhere.run([HERE, "lowest"]) == 1
    told = capsys.readouterr().out
    assert f"{HERE}: passed" in told
    assert "lowest: " in told
    assert "ended with 1" in told


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
