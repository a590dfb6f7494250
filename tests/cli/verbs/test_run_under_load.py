"""``hetsim run`` at a rate: a workload for real, beside what is simulated of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders import BOX
from cli_calls import call, ok, refused
from deployments import model_at
from exact_devices import exact
from hetsim.execution.serving import serve
from oracles.trace_import import imported

ON = ("--platform", str(BOX), "--executor", "threads")


@pytest.fixture
def on_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices and clocks that are exact, and kernels that are quick enough."""
    exact(monkeypatch)
    monkeypatch.setattr(serve, "roomy", lambda alone, templates, scale, allowed: scale)


def test_measured_stands_beside_simulated(tmp_path: Path, on_time: None) -> None:
    words = (
        "run", model_at(tmp_path, "batch", 32), *ON, "--strategy", "heft", "--emulate",
        "--rate", "5000", "--requests", "50", "--batching", "4:100us", "--slo", "p90=1ms",
    )  # fmt: skip
    shown = ok(*words)
    for said in ("simulated, 95 %", "measured, 95 %", "+0.0 %", "waited, mean", "batch, mean",
                 "50 requests on threads", "0 s late on average",
                 "emulated: each call", "points"):  # fmt: skip
        assert said in shown.output
    done = call(*words, "--json", "--out", tmp_path / "left")
    record = json.loads(done.stdout)
    assert record["schema"] == "hetsim-load-test/1"
    assert record["emulated"] is True
    assert record["measured"]["requests"] == record["simulated"]["requests"] == 50
    assert record["measured"]["streams"] == record["simulated"]["streams"]
    [off] = record["off_by"]
    assert off["latency_mean"] == 0
    assert {one["latency"] for one in off["percentiles"]} == {0}
    assert record["outputs"]["compared"] == 50
    assert record["outputs"]["mismatches"] == []
    assert json.loads((tmp_path / "left" / "result.json").read_text()) == record


def test_its_trace_has_the_wall_clock_above_the_virtual_one(tmp_path: Path, on_time: None) -> None:
    path = tmp_path / "trace.json"
    shown = ok(
        "run", model_at(tmp_path, "batch", 32), *ON, "--strategy", "heft", "--emulate",
        "--rate", "5000", "--requests", "50", "--batching", "4:100us", "--trace", path,
    )  # fmt: skip
    assert f"wrote the trace of 50 requests to {path}; open it" in shown.stderr
    found = imported(path.read_text())
    assert found.complaints == []
    clocks = ("real run, wall clock: ", "simulation, virtual clock: ")
    names = list(found.processes.values())
    assert [name.partition(": ")[0] + ": " for name in names] == [
        one for one in clocks for _ in "12"
    ]
    # On devices that are exact the run is what was simulated, request by request.
    told = [
        {name.removeprefix(clock): found.of(name) for name in names if name.startswith(clock)}
        for clock in clocks
    ]
    assert told[0] == told[1]
    [requests] = [spans for name, spans in told[0].items() if name.startswith("requests of ")]
    named = [span for span in requests if span.name.startswith("request ")]
    assert sorted(span.args["request"] for span in named) == list(range(50))
    assert {span.name for span in requests} - {span.name for span in named} == {"waiting", "served"}
    assert len(found.arrows) == 100
    assert all(tail.name == "served" for tail, _, _ in found.arrows)
    counted = [name for _, name in found.counters]
    assert sorted(counted) == sorted(["served requests", "waiting requests"] * 2)


def test_a_machine_that_does_not_keep_up_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (
        "run", model_at(tmp_path, 1, 32), *ON, "--strategy", "heft", "--emulate",
        "--rate", "500", "--requests", "5",
    )  # fmt: skip
    slow = call(*words, "--time-scale", "1e-3")
    assert slow.exit_code == 1
    assert slow.stdout == ""
    [line] = slow.stderr.splitlines()
    assert "this machine is too slow: subgraph g0 of 'heft' on " in line
    assert "use --time-scale" in line
    monkeypatch.setattr(serve.Host, "behind", lambda *_: "answers were noted late")
    monkeypatch.setattr(serve, "roomy", lambda alone, templates, scale, allowed: scale)
    refused(call(*words), 1, "this machine is too slow: answers were noted late; use --time")


def test_a_compiled_plan_is_not_served(tmp_path: Path) -> None:
    model = model_at(tmp_path, 1, 32)
    call("compile", model, "--platform", BOX, "--strategy", "heft", "-o", tmp_path / "c")
    told = call("run", tmp_path / "c", "--rate", "5", "--requests", "5")
    refused(told, 2, "a compiled plan cannot be served under load")
