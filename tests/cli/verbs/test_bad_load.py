"""Bad workloads, deployments and traces: one line with file, line and fix, and nothing left."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli_calls import call, ok
from hetsim.workload import traces as lines

Refused = Callable[..., str]

WORKLOAD = """\
{end}
streams:
  all:
    model: {model}
    arrivals: {arrivals}
    slos: [p90=5ms]
    dims: {dims}
"""
DEPLOYMENT = "models:\n  - model: dynamic.onnx\n    {said}\n"
STEADY = "{poisson: {rate_per_s: 100}}"


@pytest.fixture
def refused(dynamic_model: Path, platform: Path, tmp_path: Path) -> Refused:
    """Simulate a workload, or the model under a deployment; return the one line, which is bad."""

    def simulated(workload: str | None, deployment: str | None = None, code: int = 3) -> str:
        words: list[object] = ["simulate", "--platform", platform]
        if workload is None:
            words += [dynamic_model, "--rate", 100, "--requests", 20]
        else:
            (tmp_path / "w.yaml").write_text(workload)
            words += ["--workload", tmp_path / "w.yaml"]
        if deployment is not None:
            (tmp_path / "d.yaml").write_text(deployment)
            words += ["--deployment", tmp_path / "d.yaml"]
        before = sorted(tmp_path.rglob("*"))
        result = call(*words)
        assert (result.exit_code, result.stdout) == (code, ""), result.stderr
        assert result.stderr.count("\n") == 1
        assert result.stderr.startswith("error: ")
        assert len(result.stderr) < 2100
        assert sorted(tmp_path.rglob("*")) == before
        return result.stderr

    return simulated


def workload(**said: Any) -> str:
    base = {"end": "requests: 40", "model": "dynamic.onnx", "arrivals": STEADY, "dims": "{}"}
    return WORKLOAD.format(**{**base, **said})


@pytest.mark.parametrize(
    ("said", "code", "line", "told"),
    [
        ({"model": "no.onnx"}, 3, 4, "no such file"),
        ({"model": "/dev/zero"}, 3, 4, "not a regular file"),
        ({"dims": "{bach: 2}"}, 2, 4, "no input has a dimension named 'bach'"),
        (
            {"arrivals": "{poisson: {rate_per_s: 0}}"},
            3,
            2,
            "the workload has no requests; use a rate",
        ),
        ({"end": "requests: 40\nwarm_up_s: 1e6"}, 3, 2, "within the warm-up; use a shorter"),
        ({"arrivals": "{poisson: {rate_per_s: 1e-320}}"}, 3, 5, "below 1e-12; use 0"),
        ({"arrivals": "{constant: {rate_per_s: 1e-13}}"}, 3, 5, "below 1e-12; use 0"),
        ({"arrivals": "{mmpp: {rates_per_s: [5, 1e-99], sojourns_s: [1, 1]}}"}, 3, 5, "below"),
        ({"end": "duration_s: 1e12"}, 3, 2, "requests come, and this machine keeps"),
        ({"end": "requests: 100000000000"}, 3, 2, "use fewer requests:"),
        ({"arrivals": "{replay: {path: " + "x" * 5000 + "}}"}, 3, 5, "no such file"),
        ({"model": "x" * 300_000}, 3, 4, "no such file"),
    ],
)
def test_a_workload_names_the_line(
    said: dict[str, str], code: int, line: int, told: str, refused: Refused, tmp_path: Path
) -> None:
    found = refused(workload(**said), code=code)
    assert f"{tmp_path / 'w.yaml'}:{line}: " in found
    assert told in found


@pytest.mark.parametrize(
    ("said", "code", "line", "told"),
    [
        ("strategy: hefd", 2, 3, "did you mean 'heft'?"),
        ("instances: [{strategy: hefd}]", 2, 3, "did you mean 'heft'?"),
        ('strategy: "heft:5"', 2, 3, "takes no argument"),
        ("instances: [{devices: [npv]}]", 2, 2, "did you mean 'npu'?"),
        ("instances: [{plan: no.json}]", 3, 3, "no.json: no such file"),
        ("instances: [{plan: pipe}]", 3, 3, "not a regular file"),
        ("queue_policy: {max_queue_size: 999999999999999999999}", 3, 3, "at most"),
        ("dynamic_batching: {max_batch_size: 60000}", 3, 2, "60000 plans, above 1024; use fewer"),
        (
            "batch_sizes: [1, 65536]\n    dynamic_batching: {max_batch_size: 65536}\n"
            "    instances: [{count: 4096}]",
            3, 2, "268435456 ways to run a batch",
        ),
    ],
)  # fmt: skip
def test_a_deployment_names_the_line(
    said: str, code: int, line: int, told: str, refused: Refused, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    text = DEPLOYMENT.format(said=said).replace("dynamic.onnx", str(tmp_path / "dynamic.onnx"))
    found = refused(None, text, code=code)
    assert f"{tmp_path / 'd.yaml'}:{line}: " in found
    assert told in found


def test_a_model_that_is_not_served_names_the_deployment(refused: Refused, tmp_path: Path) -> None:
    found = refused(workload(), DEPLOYMENT.format(said="").replace("dynamic", "other"))
    assert f"{tmp_path / 'd.yaml'}:1: no model " in found


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ("1_0\n2_0\n", 1),
        ("\u0660\n", 1),
        ("0\nnan\n", 2),
        ("1\n0\n", 2),
        ("0\n\0\n", 2),
        ("", 1),
    ],
)
def test_a_trace_names_its_own_line(rows: str, line: int, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(rows)
    found = refused(workload(arrivals="{replay: {path: t.csv}}"))
    assert f"{tmp_path / 't.csv'}:{line}: " in found


def test_a_trace_of_too_many_lines_is_refused_before_it_is_read(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_LINES", 1000)
    (tmp_path / "t.csv").write_text("0\n" * 1001)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"0\n" + b"\n" * 1000))
    for name in ("t.csv", "t.csv.gz"):
        found = refused(workload(arrivals=f"{{replay: {{path: {name}}}}}"))
        assert f"{name}:1000: more than 50000000 requests; cut the trace" in found
    (tmp_path / "t.csv").write_bytes(b"0\n" + b"1" * 2**21 + b"\n" * 2000)
    found = refused(workload(arrivals="{replay: {path: t.csv}}"))
    assert "t.csv:2: a line of 1048576 bytes or more" in found


def test_many_streams(refused: Refused, platform: Path, tmp_path: Path) -> None:
    def of(count: int) -> str:
        one = "{model: dynamic.onnx, arrivals: {poisson: {rate_per_s: 5}}}"
        return "requests: 5\nstreams:\n" + "".join(f"  s{k}: {one}\n" for k in range(count))

    assert "w.yaml:2: 1001 streams, above 1000" in refused(of(1001))
    (tmp_path / "w.yaml").write_text(of(40))
    ok("simulate", "--workload", tmp_path / "w.yaml", "--platform", platform)


@pytest.mark.parametrize("option", ["--input", "--out", "--trace", "--workload", "--affinity"])
def test_names_that_are_too_long(option: str, model: Path, platform: Path) -> None:
    name = f"x={'x' * 300}" if option == "--input" else "x" * 300
    load = () if option == "--trace" else ("--rate", 5)
    words = () if option == "--workload" else (model, *load)
    result = call("simulate", *words, "--platform", platform, option, name)
    assert (result.exit_code in (2, 3), result.stderr.count("\n")) == (True, 1)
    assert result.stderr.startswith("error: ")


@pytest.mark.parametrize("times", ["1 1 1", "0 0", "7"])
def test_a_replay_that_has_no_rate(
    dynamic_model: Path, platform: Path, tmp_path: Path, times: str
) -> None:
    (tmp_path / "t.csv").write_text("\n".join(["t", *times.split()]) + "\n")
    arrivals = "{replay: {path: t.csv, column: t}}"
    text = WORKLOAD.format(
        end=f"requests: {len(times.split())}", model=dynamic_model, arrivals=arrivals,
        dims="{batch: 1}",
    )  # fmt: skip
    (tmp_path / "w.yaml").write_text(text)
    given = ("--workload", tmp_path / "w.yaml", "--platform", platform)
    report = tmp_path / "r.html"
    for words in (("simulate", *given), ("simulate", *given, "--report", report)):
        played = call(*words)
        assert played.exit_code in (0, 5), played.output
    assert report.exists()
    for verb in ("capacity", "place"):
        refused = call(verb, *given)
        assert refused.exit_code == 2
        what = "nothing comes at a rate above 0" if times == "7" else "come at one time"
        assert what in refused.stderr
