"""Work is left to plain Python until this process has asked for a second of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hetsim.core import compile_threshold, deadline
from hetsim.core.compile_threshold import pays


def one() -> None:
    pass


def two() -> None:
    pass


def made(function: Any, *, loaded: bool = False, kept: bool = False) -> Any:
    return SimpleNamespace(plain=function, loaded=loaded, kept=kept)


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_threshold, "_done", {})
    monkeypatch.setattr(compile_threshold, "_kept", {})
    monkeypatch.setattr(compile_threshold, "LOADING_MORE", compile_threshold.LOADING)


def test_much_work_is_compiled_at_once_and_little_once_it_adds_up() -> None:
    assert pays(made(one), 100, 10, 100)
    assert [pays(made(two), 30, 10, 100) for _ in range(5)] == [False] * 3 + [True] * 2


def test_what_does_not_outweigh_handing_over_arrays_stays_in_python() -> None:
    assert not any(
        pays(made(one, loaded=loaded), 9, 10, 20) for loaded in (False, True) for _ in range(9)
    )


def test_what_is_loaded_is_used_for_all_else() -> None:
    assert pays(made(one, loaded=True), 10, 10, 100)


def test_a_deadline_leaves_time_to_compile_or_nothing_new_is() -> None:
    with deadline.until(deadline.now_s() + deadline.COMPILE_S / 2):
        assert not pays(made(one), 100, 10, 100)
        assert pays(made(one, loaded=True), 100, 10, 100)


def test_what_is_kept_is_loaded_from_half_the_work_on() -> None:
    assert [pays(made(one, kept=True), 20, 10, 100) for _ in range(3)] == [
        False, False, True,
    ]  # fmt: skip
    with deadline.until(deadline.now_s() + deadline.LOAD_S / 2):
        assert not pays(made(two, kept=True), 100, 10, 100)
