"""Files that tests of hardware write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of this name and text; return where it is."""

    def save(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return save
