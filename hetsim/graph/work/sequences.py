"""Rules of sequences and optionals: tensors put into them and taken out are copied.

A sequence has no size before a run, so that of these bytes only those of plain tensors count.
"""

from __future__ import annotations

from collections.abc import Mapping

from hetsim.graph.work.rule import NodeView, Rule, no_bytes, no_flops


def _search_flops(view: NodeView) -> int:
    """Every n-gram of every length and skip that is looked up in the pool."""
    lengths = view.integer("max_gram_length", 1) - view.integer("min_gram_length", 1) + 1
    skips = view.integer("max_skip_count", 0) + 1
    return lengths * skips * view.elements()


_COPY = Rule("data_movement", no_flops)
_VIEW = Rule("data_movement", no_flops, no_bytes)

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(
        ("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SequenceInsert",
         "SplitToSequence"),
        _COPY,
    ),
    **dict.fromkeys(
        ("Optional", "OptionalGetElement", "OptionalHasElement", "SequenceEmpty", "SequenceErase",
         "SequenceLength"),
        _VIEW,
    ),
    "TfIdfVectorizer": Rule("other", _search_flops),
}  # fmt: skip
