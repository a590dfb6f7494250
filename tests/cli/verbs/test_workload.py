"""``hetsim inspect`` of workloads and deployments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_calls import call, ok, record_of

BROKEN = Path(__file__).parents[2] / "workload" / "broken"

WORKLOAD = """
seed: 3
duration_s: 100
warm_up_s: 5
streams:
  chat: {model: zoo:bert_small, arrivals: {poisson: {rate_per_s: 20}}, slos: [p99=50ms]}
  code:
    model: zoo:bert_small
    arrivals: {replay: {path: two.csv}}
    dims: {sequence: {column: ContextTokens, buckets: [4096, 8192]}}
  three: {model: zoo:alexnet, arrivals: {closed: {concurrency: 3, think_time_s: 0.5}}}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "two.csv").write_bytes((BROKEN / "two.csv").read_bytes())
    path = tmp_path / "w.yaml"
    path.write_text(WORKLOAD)
    return str(path)


def test_show_has_a_line_a_stream(file: str) -> None:
    result = ok("inspect", file)
    for part in ("after 100 s", "warm-up 5.00 s", "p99 <= 50.0 ms", "(azure)", "3 clients",
                 "constant think time of 500 ms", "answers determine when"):  # fmt: skip
        assert part in " ".join(result.stdout.split()), part


def test_show_as_json_counts_what_came(file: str) -> None:
    record = record_of("inspect", file)
    assert record["schema"] == "hetsim-workload/1"
    chat, code, three = record["streams"]
    assert chat["requests"] == pytest.approx(2000, abs=150)
    assert chat["rate_per_s"] == chat["requests"] / 100
    assert chat["gap_cv"] == pytest.approx(1, abs=0.1)
    assert chat["slos"] == [{"share_on_time": 0.99, "latency_s": 0.05}]
    assert code["variants"] == [
        {"dims": {"sequence": 4096}, "requests": 1},
        {"dims": {"sequence": 8192}, "requests": 1},
    ]
    assert (three["requests"], three["gap_cv"]) == (0, None)
    assert call("inspect", file, "--json").stdout == json.dumps(record, indent=1) + "\n"


def test_validate_says_what_each_file_is_or_all_that_is_wrong(file: str) -> None:
    line = f"{file}: valid workload (3 streams, after 100 s)\n"
    assert call("inspect", file).stdout.startswith(line)
    bad = str(BROKEN / "workload_several_faults.yaml")
    result = call("inspect", bad, file)
    assert result.exit_code == 3
    assert result.stderr == "error: 1 of 2 files cannot be used\n"
    assert [line.partition(": ")[0] for line in result.stdout.splitlines()] == [
        f"{bad}:2", f"{bad}:5", f"{bad}:6", file,
    ]  # fmt: skip
    record = json.loads(call("inspect", bad, file, "--json").stdout)
    assert [one["valid"] for one in record["files"]] == [False, True]
    assert len(record["files"][0]["errors"]) == 3
