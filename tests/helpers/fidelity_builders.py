"""Points of fidelity with round numbers, of no device."""

from __future__ import annotations

from catalog.fidelity.points import FidelityPoint, Predicted


def point(
    device: str,
    measured_ms: float,
    predicted_ms: float | None = None,
    within: float = 1.5,
    network: str = "net",
    precision: str = "int8",
    batch: int = 1,
) -> FidelityPoint:
    """A point whose predictions, shipped and left out, are the same."""
    predicted = None if predicted_ms is None else Predicted(predicted_ms / 1e3, within)
    return FidelityPoint(
        device=device,
        precision=precision,
        network=network,
        batch=batch,
        kin="test-int8",
        rows=2,
        measured_s=measured_ms / 1e3,
        lowest_s=measured_ms / 1e3,
        highest_s=measured_ms * 1.25 / 1e3,
        shipped=predicted,
        left_out=predicted,
        unseen=predicted,
    )
