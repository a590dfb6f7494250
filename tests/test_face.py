"""The face: every public name loads and says what it is; documents name nothing else."""

from __future__ import annotations

import inspect
import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

import hetsim
from hetsim.core.plugins import GROUPS, PROMISES, Entry, Option

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
)
HOW_TO = ROOT / "docs" / "how-to"


@pytest.mark.parametrize("name", hetsim.__all__)
def test_a_public_name_loads_and_says_what_it_is(name: str) -> None:
    value = getattr(hetsim, name)
    if name == "__version__":
        return
    said = (value.__doc__ or "").strip()
    assert said
    # A record without a docstring would be described by its signature.
    assert not said.startswith(f"{name}(")
    assert value.__module__.startswith("hetsim.")
    for own, part in vars(value).items() if inspect.isclass(value) else ():
        if not own.startswith("_") and inspect.isfunction(part):
            assert part.__doc__, f"{name}.{own}"


def test_the_face_lists_what_it_has() -> None:
    assert hetsim.__all__ == sorted(hetsim.__all__)
    listed = [name for names in hetsim._NAMES.values() for name in names.split()]
    assert hetsim.__all__ == sorted([*listed, "__version__"])
    shown = {name for name in dir(hetsim) if not name.startswith("__")}
    assert shown == {*listed, *hetsim._MODULES}
    assert not {"Any", "TYPE_CHECKING", "os", "import_module", "annotations"} & vars(hetsim).keys()


def test_a_name_that_left_the_face_says_where_it_is() -> None:
    homes = {name: home for home, names in hetsim._MOVED.items() for name in names.split()}
    errors = {name: "hetsim.errors" for name, kind in vars(hetsim.errors).items()
              if isinstance(kind, type) and issubclass(kind, hetsim.HetsimError)}  # fmt: skip
    for name, home in {**errors, **homes}.items():
        if name in hetsim.__all__:
            continue
        with pytest.warns(DeprecationWarning, match=rf"^hetsim.{name} is {home}.{name} now$"):
            assert getattr(hetsim, name) is getattr(import_module(home), name)
    with pytest.raises(AttributeError, match="module 'hetsim' has no attribute 'nearest'"):
        _ = hetsim.nearest


def test_the_reference_has_a_page_for_every_name() -> None:
    pages = [page.read_text() for page in (ROOT / "docs/reference/python").glob("*.md")]
    told = {line.split()[1] for page in pages for line in page.splitlines() if line[:3] == ":::"}
    homes = {f"{home}.{name}" for home, names in hetsim._NAMES.items() for name in names.split()}
    assert {name for name in homes - told if not name.startswith("hetsim.errors.")} == set()
    assert {"hetsim.errors", "hetsim.core.result.Result"} <= told


def named(value: object, part: str) -> object:
    """What `part` of a package or a class is; raises where there is none."""
    if hasattr(value, part):
        return getattr(value, part)
    assert inspect.ismodule(value), f"{value!r} has no {part}"
    return import_module(f"{value.__name__}.{part}")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_name_nothing_that_does_not_exist(path: Path) -> None:
    for text in set(re.findall(r"(?<![\w./'-])hetsim(?:\.[A-Za-z_]\w*)+", path.read_text())):
        # `hetsim.schema.json` is a file.
        if text not in GROUPS and not text.endswith(".json"):
            reduce(named, text.split(".")[1:], hetsim)


def table_of(page: str) -> list[str]:
    """The code words in the first column of the first table of a how-to page."""
    rows = re.split(r"^\|---.*$", (HOW_TO / page).read_text(), flags=re.M)[1].splitlines()[1:]
    rows = rows[: next(index for index, row in enumerate(rows) if not row.startswith("|"))]
    return [name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])]


def test_pages_list_every_method_and_strategy() -> None:
    assert sorted(table_of("partition.md")) == [m.name for m in hetsim.methods()]
    listed = [s.name for s in hetsim.strategies() if s.provider == "hetsim"]
    assert sorted(table_of("strategies.md")) == sorted(listed)


def test_methods_and_strategies_are_records_of_one_shape() -> None:
    for entry in (*hetsim.methods(), *hetsim.strategies()):
        assert isinstance(entry, Entry)
        assert entry.usage.startswith(entry.name)
        assert entry.summary
        assert set(entry.promises) <= set(PROMISES)
        assert entry.provider
        names = [option.name for option in entry.options]
        assert len(names) == len(set(names))
        assert all(isinstance(option, Option) and option.meaning for option in entry.options)


def test_what_strategies_promise_is_what_their_options_say() -> None:
    for entry in hetsim.strategies():
        kinds = {option.name: option.kind for option in entry.options}
        if "objective" in kinds:
            assert {"latency", "throughput"} <= set(entry.promises)


def verbs() -> dict[str, set[str]]:
    """The names of arguments by verb; options of strategies by ``*``."""
    found = {
        name: value
        for name in hetsim.__all__
        if inspect.isfunction(value := getattr(hetsim, name)) or name == "Session"
    }
    for kind, own in (
        ("Problem", ("of", "from_arrays")),
        ("Session", ("run", "run_async", "inject")),
    ):
        found |= {f"{kind}.{name}": getattr(getattr(hetsim, kind), name) for name in own}
    taken = {name: set(inspect.signature(value).parameters) for name, value in found.items()}
    taken["*"] = {option.name for entry in hetsim.strategies() for option in entry.options}
    return taken


def test_the_table_of_arguments_is_the_code() -> None:
    taken = verbs()
    rows = re.findall(r"^\| (`.*?) \| (`.*?) \|", (ROOT / "docs/arguments.md").read_text(), re.M)
    listed: set[str] = set()
    for names, who in rows:
        as_option = "`plan` and `compare` as an option" in who
        by = set(re.findall(r"`([\w.]+)`", who.replace("`plan` and `compare` as an option", "")))
        for name in re.findall(r"`(\w+)`", names):
            listed.add(name)
            assert by == {verb for verb in taken if name in taken[verb] and verb != "*"}, name
            own = {"objective", "strategies", "priority"}
            assert as_option == (name in taken["*"]) or name in own, name
    shared = {
        name
        for verb in taken
        for name in taken[verb]
        if sum(name in others for others in taken.values()) > 1
    }
    assert shared - listed <= {"self", "method", "moves", "name", "options", "devices"}
