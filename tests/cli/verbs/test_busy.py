"""A device of several streams that always computes is busy all the time, wherever it is told."""

from __future__ import annotations

from pathlib import Path

from cli_calls import call, record_of
from hetsim.reporting.tables.verdicts import busiest_text


def test_table_and_record_tell_the_share_of_the_latency(tmp_path: Path) -> None:
    # Its NPU has three cores, and a chain keeps one of them.
    words = ("compare", "zoo:squeezenet", "--platform", "rock-5b", "--strategy", "single:npu")
    record = record_of(*words)
    [row] = record["rows"]
    npu = row["timeline"]["devices"]["npu"]
    share = npu["busy_s"] / row["timeline"]["makespan_s"]
    assert 0.9 < row["busy"]["npu"] == npu["busy_share"] <= 1.0
    assert abs(npu["busy_share"] - share) < 1e-9
    assert abs(npu["utilization"] - share / 3) < 1e-9
    assert f"npu {100 * share:.0f}" in call(*words).stdout
    said = busiest_text({**row["timeline"], "critical_path": None})
    assert said == f"The bottleneck is npu, which is busy {100 * share:.0f} % of the time."
