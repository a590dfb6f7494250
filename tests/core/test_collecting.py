"""Collecting is put off inside, and afterwards as it was before."""

from __future__ import annotations

import gc

import pytest

from hetsim.core.process import collecting_put_off


def ended() -> None:
    """Put it off twice, and end by an error."""
    with collecting_put_off():
        assert not gc.isenabled()
        with collecting_put_off():
            pass
        assert not gc.isenabled()
        raise ValueError("ended")


@pytest.mark.parametrize("enabled", [True, False])
def test_it_is_off_inside_and_as_before_afterwards(enabled: bool) -> None:
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(ValueError, match="ended"):
            ended()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
