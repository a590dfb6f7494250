"""Why a served rate is predicted far off, as far as it is known."""

from __future__ import annotations

from catalog.fidelity.server.points import ServerPoint

_OF_CHIPS = {
    "Inferentia": "four cores a chip, each with queues of its own; no time of a batch is known",
    "HanGuang 800": "half of its answers take 0.4 ms, 1 in 100 over 10: stalls that no time of a "
    "batch has",
}
_ENDED_EARLY = 0.7
"""Of the limit: a run that ended below was not ended by its p99."""


def reason(point: ServerPoint) -> str:
    """Return what is known to be behind the error."""
    of = point.system
    if of.chip in _OF_CHIPS:
        return _OF_CHIPS[of.chip]
    if of.p99_s < _ENDED_EARLY * of.limit_s:
        return "something else than the limit ended the run: most likely what feeds the card"
    if of.precision == "bfloat16":
        return "the catalog has no chip with bfloat16 on plain vectors: float32's shape"
    if point.basis == "near":
        return "batch 1 is taken from another chip"
    return "not known"
