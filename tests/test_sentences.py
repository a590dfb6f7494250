"""Sentences that users read hold no words in a sense of hetsim's own."""

from __future__ import annotations

import pytest

from sentences import ROOT, complaints, listed

ROOMS = {path.name.removesuffix(".py") for path in (ROOT / "hetsim").iterdir()}


def test_texts_of_every_kind_are_listed() -> None:
    found = {(one.kind, one.text) for one in listed([])}
    assert ("error", "there is no executor '{}'") in found
    assert {kind for kind, _ in found} >= {"error", "hint", "help", "output", "page", "warning"}


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_no_private_words(room: str) -> None:
    assert not list(complaints([room]))
