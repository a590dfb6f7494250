"""Every broken description is refused in one line that names file, line, and what to do.

The first line of each file under ``broken/`` is the whole error that it must give.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hetsim.errors import PlatformError
from hetsim.hardware.catalog import load_device, load_link, load_platform
from hetsim.hardware.files.checking import check_file

BROKEN = Path(__file__).parent / "broken"
FILES = sorted(path.name for path in BROKEN.glob("*.yaml"))


def refused(name: str) -> PlatformError:
    load = {"device": load_device, "link": load_link, "platform": load_platform}[sort_of(name)]
    with pytest.raises(PlatformError) as caught:
        load(f"./{name}")
    return caught.value


def sort_of(name: str) -> str:
    return name.partition("_")[0]


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


@pytest.mark.usefixtures("in_broken")
@pytest.mark.parametrize("name", FILES)
def test_check_lists_every_complaint_with_its_line_and_the_first_is_the_error(name: str) -> None:
    checked = check_file(name)
    assert checked.found is None
    assert checked.name is None
    assert checked.sort in (None, sort_of(name))
    first = refused(name)
    assert (checked.errors[0].where, checked.errors[0].what) == (first.where, first.what)
    if checked.sort is None:
        # No key can be trusted: it is no YAML, or says one thing twice.
        assert len(checked.errors) == 1
    for error in checked.errors:
        assert error.where is not None
        file, line = error.where.rsplit(":", 1)
        assert 1 <= int(line) <= len(Path(file).read_text(encoding="utf-8").splitlines())
    rest = len(checked.errors) - 1
    assert (f"{rest} more on line" in str(first)) == (rest > 0)


@pytest.mark.usefixtures("in_broken")
@pytest.mark.parametrize("name", FILES)
def test_every_error_says_what_to_do(name: str) -> None:
    for error in check_file(name).errors:
        wanted = ("must ", "not YAML", "holds no mapping", "is empty", "expected ")
        assert error.hint or any(word in error.what for word in wanted), error


def test_there_are_enough_of_them_of_each_sort() -> None:
    sorts = [sort_of(name) for name in FILES]
    assert sorts.count("device") >= 50
    assert sorts.count("platform") >= 30
    assert sorts.count("link") >= 10
