"""Sentences that users read hold no words in a sense of hetsim's own."""

from __future__ import annotations

from sentences import complaints, listed


def test_sentences_of_every_kind_are_listed_and_hold_no_private_words() -> None:
    found = list(listed([]))
    assert ("error", "there is no executor '{}'") in {(one.kind, one.text) for one in found}
    assert {one.kind for one in found} >= {
        *("docstring", "error", "hint", "help", "output", "page", "warning"),
    }
    assert not list(complaints(found))
