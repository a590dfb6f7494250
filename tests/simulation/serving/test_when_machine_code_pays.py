"""How much work machine code pays for: where it is kept, where it is not, where it is loaded."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hetsim.simulation.clock import driver, virtual_time
from hetsim.simulation.serving import compiling


def loaded(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Have this process know so many functions compiled."""
    monkeypatch.setattr(
        compiling, "compiled", SimpleNamespace(cache_info=lambda: SimpleNamespace(currsize=count))
    )


@pytest.mark.parametrize("kept", [True, False])
def test_making_it_anew_pays_later_than_loading_it(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "is_kept", lambda *_, **__: kept)
    loaded(monkeypatch, 0)
    least = compiling.LOADED_FROM if kept else compiling.MADE_FROM
    assert not compiling.pays(least - 1)
    assert compiling.pays(least)


def test_little_work_does_not_even_ask_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object, **__: object) -> bool:
        raise AssertionError("it takes a look at the disk")

    loaded(monkeypatch, 0)
    monkeypatch.setattr(compiling, "is_kept", asked)
    assert not compiling.pays(compiling.LOADED_FROM - 1)
    assert compiling.pays(compiling.MADE_FROM)


def test_what_is_loaded_is_used_for_much_less(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(monkeypatch, 1)
    assert not compiling.pays(compiling.LOADED - 1)
    assert compiling.pays(compiling.LOADED)


def test_what_is_compiled_is_asked_of_the_driver_itself() -> None:
    """Once a process: it is known from then on that it is loaded."""
    assert compiling.compiled() is compiling.compiled()
    assert compiling.pays(compiling.LOADED)


@pytest.mark.parametrize("kept", [(), ("advance",), ("advance", "again")])
def test_the_clock_asks_for_all_that_it_would_call(
    kept: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual_time, "is_kept", lambda one, *_, **__: one.__name__ in kept)
    monkeypatch.setattr(virtual_time, "_kept", set())
    few, many = virtual_time.KEPT_FROM, virtual_time.COMPILE_FROM
    assert not virtual_time.pays(few - 1)
    assert virtual_time.pays(few) == virtual_time.pays(many - 1) == ("advance" in kept)
    assert virtual_time.pays(few, driver.again) == ("again" in kept)
    assert virtual_time.pays(many, driver.again)
