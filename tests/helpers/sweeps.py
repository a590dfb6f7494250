"""Which tests run each time, and which in the sweep: all of them, or the share of a day.

``sweep`` gives a test the cases that run each time and those that the sweep adds, ``examples`` a
property how often it is tried. A test that the sweep alone runs is marked ``@pytest.mark.sweep``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import settings

from summary import SUMMARY

LEFT_OUT = "none"
WHOLE = "all"
_SHARE = re.compile(r"([1-9][0-9]*)/([1-9][0-9]*)")


def sweep(
    names: str,
    *,
    quick: Iterable[Any],
    full: Iterable[Any],
    ids: Callable[[Any], object] | Sequence[str] | None = None,
    indirect: bool | Sequence[str] = False,
) -> pytest.MarkDecorator:
    """``pytest.mark.parametrize`` over ``full``, of which ``quick`` alone run each time.

    ``names``, the cases, ``ids`` and ``indirect`` are as ``parametrize`` takes them; every case of
    ``quick`` is one of ``full``.
    """
    several = len(names.split(",")) > 1
    cases = swept(quick=quick, full=full, several=several)
    return pytest.mark.parametrize(names, cases, ids=ids, indirect=indirect)


def swept(*, quick: Iterable[Any], full: Iterable[Any], several: bool = False) -> list[Any]:
    """The cases of ``full``, those not in ``quick`` marked; for the ``params`` of a fixture.

    ``several`` says that a case is a tuple of values, one for each name.
    """
    each_time, cases = list(quick), list(full)
    if strays := [case for case in each_time if case not in cases]:
        raise ValueError(f"not among the full cases: {strays}")
    return [
        pytest.param(
            *(case if several else (case,)), marks=() if case in each_time else pytest.mark.sweep
        )
        for case in cases
    ]


def examples(*, quick: int, full: int) -> pytest.MarkDecorator:
    """Try a property of hypothesis on so many examples each time, and on so many in the sweep.

    It stands in place of ``settings(max_examples=...)``.
    """
    if not 0 < quick <= full:
        raise ValueError(f"{quick} examples each time are not among {full}")
    return pytest.mark.examples(quick, full)


class Sweeps:
    """A plugin that takes out what the sweep runs and this run does not, and says so at the end."""

    def __init__(self, option: str, *, named: bool, alone: bool = False) -> None:
        """``option`` is that of ``--sweep``; tests that were ``named`` one by one all run.

        ``alone``: what runs each time, and runs here no otherwise, is left out.
        """
        self._option = WHOLE if named else option
        self._alone = alone and not named
        self._not_made: Counter[str] = Counter()
        self._share = None
        if self._option not in (LEFT_OUT, WHOLE):
            self._share = share(self._option)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> Generator[None]:
        """Make no tests of the sweep where all of it is left out: making them takes seconds."""
        yield
        calls: list[Any] = getattr(metafunc, "_calls", [])
        if self._option != LEFT_OUT:
            return
        kept = [call for call in calls if not any(mark.name == "sweep" for mark in call.marks)]
        # A function without a case would be one without parameters.
        if kept:
            name = metafunc.definition.nodeid.split("::")[0]
            self._not_made[name] += len(calls) - len(kept)
            calls[:] = kept

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        """Keep what runs each time and this share of the sweep."""
        of_sweep = [item for item in items if item.get_closest_marker("sweep")]
        left = [item for item in of_sweep if not self._runs(item.nodeid)]
        if self._alone:
            done = [item for item in items if not self._is_more(item)]
            config.hook.pytest_deselected(items=done)
            items[:] = [item for item in items if self._is_more(item)]
        if left:
            gone = {item.nodeid for item in left}
            items[:] = [item for item in items if item.nodeid not in gone]
            config.hook.pytest_deselected(items=left)
        less = self._tried({item.obj: item for item in items if _examples(item)}.values())
        out = _by_file(left) + self._not_made
        if out or of_sweep or less:
            count = len(of_sweep) + self._not_made.total()
            config.stash[SUMMARY]["sweep"] = self._told(count, out, less)

    def _tried(self, properties: Iterable[pytest.Item]) -> list[pytest.Item]:
        """Say of each property how often it is tried; those tried less often than in the sweep."""
        less = []
        for item in properties:
            quick, full = _examples(item)
            whole = quick == full or self._runs(_property(item))
            settings(max_examples=full if whole else quick)(item.obj)
            if not whole:
                less.append(item)
        return less

    def _is_more(self, item: pytest.Item) -> bool:
        """Whether it is of the sweep, or a property that this run tries more often."""
        if item.get_closest_marker("sweep"):
            return True
        quick, full = _examples(item) or (0, 0)
        return quick < full and self._runs(_property(item))

    def _runs(self, node_id: str) -> bool:
        if self._share is None:
            return self._option == WHOLE
        number, shares = self._share
        return place(node_id, shares) == number

    def _told(self, count: int, out: Counter[str], less: Sequence[pytest.Item]) -> list[str]:
        which = f"share {self._option}" if self._share else self._option
        lines = [
            f"{which}: {count - out.total()} of {count} tests of the sweep selected, "
            f"{out.total()} left out; {len(less)} properties tried on fewer examples"
        ]
        tried = _by_file(less)
        for name in sorted(out | tried):
            words = [f"{out[name]} left out"] * (name in out)
            words += [f"{tried[name]} on fewer examples"] * (name in tried)
            lines.append(f"    {name}: {', '.join(words)}")
        return lines


def _by_file(items: Iterable[pytest.Item]) -> Counter[str]:
    return Counter(item.nodeid.split("::")[0] for item in items)


def _examples(item: Any) -> tuple[int, ...]:
    mark = item.get_closest_marker("examples")
    return mark.args if mark else ()


def _property(item: pytest.Item) -> str:
    """The node id of all cases of a property, which are tried equally often."""
    return item.nodeid.partition("[")[0]


def share(text: str) -> tuple[int, int]:
    """What ``3/7`` says: the third of seven shares."""
    found = _SHARE.fullmatch(text)
    if not found or int(found[1]) > int(found[2]):
        raise pytest.UsageError(
            f"--sweep takes {LEFT_OUT}, {WHOLE} or a share such as 3/7, not {text!r}"
        )
    return int(found[1]), int(found[2])


def place(node_id: str, shares: int) -> int:
    """In which of so many shares, from 1, a test is, in every process and on every machine."""
    return int.from_bytes(sha256(node_id.encode()).digest()[:8]) % shares + 1


def add_option(parser: pytest.Parser) -> None:
    """Add ``--sweep``."""
    parser.addoption(
        "--sweep",
        default=LEFT_OUT,
        metavar="SHARE",
        help=f"of the sweep run {LEFT_OUT} (the default), {WHOLE}, or a share such as 3/7; "
        "tests named one by one (file::test) run in any case",
    )
    parser.addoption(
        "--alone",
        action="store_true",
        help="with --sweep: leave out what runs each time",
    )
