"""``hetsim run --emulate``."""

from __future__ import annotations

from builders import BOX
from cli_calls import call, record_of

RUN = ("run", "zoo:squeezenet", "--platform", str(BOX), "--executor", "threads")


def test_what_was_predicted_and_what_was_measured() -> None:
    record = record_of(
        *RUN, "--strategy", "hetero", "--emulate", "--time-scale", 20, "--requests", 2
    )
    assert record["schema"] == "hetsim-emulation/1"
    assert record["requests"] == len(record["wall_s"]) == 2
    assert record["bitwise_equal"] is True
    assert record["measured_latency_s"] >= 0.999 * record["predicted_latency_s"]
    assert record["measured_makespan_s"] >= 0.999 * record["predicted_makespan_s"]
    shown = call(*RUN, "--emulate", "--time-scale", 1)
    assert "predicted" in shown.output
    assert "overrun" in shown.output
