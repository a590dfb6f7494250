"""Every broken description is refused in one line that names file, line, and what to do.

The first line of each file under ``broken/`` is the whole error that it must give.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hetsim.errors import PlatformError
from hetsim.hardware.catalog import load_device, load_platform

BROKEN = Path(__file__).parent / "broken"
FILES = sorted(path.name for path in BROKEN.glob("*.yaml"))


def refused(name: str) -> PlatformError:
    load = load_device if name.startswith("device") else load_platform
    with pytest.raises(PlatformError) as caught:
        load(f"./{name}")
    return caught.value


@pytest.fixture
def in_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BROKEN)


@pytest.mark.usefixtures("in_broken")
@pytest.mark.parametrize("name", FILES)
def test_error_is_the_one_written_on_top(name: str) -> None:
    expected = Path(name).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    error = refused(name)
    assert str(error) == expected
    assert "\n" not in str(error)
    assert error.exit_code == 3


@pytest.mark.usefixtures("in_broken")
@pytest.mark.parametrize("name", FILES)
def test_error_names_a_line_of_the_file(name: str) -> None:
    where = refused(name).where
    assert where is not None
    file, line = where.rsplit(":", 1)
    assert 1 <= int(line) <= len(Path(file).read_text(encoding="utf-8").splitlines())


def test_there_are_enough_of_them() -> None:
    assert len(FILES) >= 60
