"""``hetsim simulate`` with a rate, clients or a workload: tables, JSON, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli_calls import Cli

WORKLOAD = """\
requests: 40
streams:
  all:
    model: dynamic.onnx
    arrivals: {constant: {rate_per_s: 100}}
    slos: [p90=5ms]
"""

DEPLOYMENT = """\
models:
  - model: dynamic.onnx
    strategy: single:cpu
    batch_sizes: [1, 4]
    instances:
      - {count: 2}
    dynamic_batching: {max_batch_size: 4, max_queue_delay_us: 100}
"""


def answer(cli: Cli, *words: object) -> dict[str, Any]:
    result = cli(*words, "--json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_rate(cli: Cli, model: Path, platform: Path) -> None:
    words = ("simulate", model, "--platform", platform, "--rate", 200, "--requests", 300)
    found = answer(cli, *words, "--slo", "p99=50ms", "--slo", "90%<=1us", "--seed", 5)
    assert found["schema"] == "hetsim-service/1"
    assert (found["requests"], found["seed"], found["end"]) == (300, 5, "ended")
    [stream] = found["streams"]
    assert [one["share_on_time"] for one in stream["objectives"]] == [0.99, 0.9]
    assert [one["on_time"] for one in stream["objectives"]] == [1, 0]
    assert answer(cli, *words, "--seed", 5)["streams"][0]["latency_mean_s"] == pytest.approx(
        stream["latency_mean_s"], rel=0
    )
    shown = cli(*words).stdout
    for word in ("figures ", "served ", "simulated ", "bottleneck ", "p99 ", "95 %", "waited,"):
        assert word in shown


def test_until_it_is_answered(cli: Cli, model: Path, platform: Path) -> None:
    found = answer(cli, "simulate", model, "--platform", platform, "--rate", 200, "--slo", "p99=1s")
    assert found["end"] == "answered"
    assert found["streams"][0]["objectives"][0]["verdict"] == "meets"


def test_until_it_is_precise(cli: Cli, model: Path, platform: Path) -> None:
    words = ("simulate", model, "--platform", platform, "--rate", 200, "--within", "10%")
    found = answer(cli, *words)
    assert found["end"] == "answered"
    [p99] = [one for one in found["streams"][0]["percentiles"] if one["percentile"] == 99.0]
    assert p99["high_s"] - p99["low_s"] <= 0.2 * p99["latency_s"]


@pytest.mark.parametrize("kind", ["constant", "poisson", "gamma:2", "burst:4"])
def test_kinds_of_arrivals(kind: str, cli: Cli, model: Path, platform: Path) -> None:
    words = ("simulate", model, "--platform", platform, "--rate", 50, "--arrivals", kind)
    assert answer(cli, *words, "--duration", "2s")["state"] == "stable"


def test_clients(cli: Cli, model: Path, platform: Path) -> None:
    words = ("simulate", model, "--platform", platform, "--concurrency", 3, "--requests", 60)
    assert answer(cli, *words, "--think", "2ms")["requests"] == 60


def test_batches(cli: Cli, dynamic_model: Path, platform: Path) -> None:
    found = answer(
        cli, "simulate", dynamic_model, "--platform", platform, "--rate", 40000, "--requests", 500,
        "--batching", "6:200us", "--instances", 2, "--loading", "on_demand",
    )  # fmt: skip
    [served] = found["served"]
    assert served["batch_sizes"] == [1, 2, 4, 6]
    assert served["instances"][0]["count"] == 2
    assert served["loading"] == "on_demand"
    assert 1 < found["streams"][0]["batch_mean"] <= 6


@pytest.fixture
def files(dynamic_model: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A workload and a deployment beside the model."""
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    (tmp_path / "d.yaml").write_text(DEPLOYMENT)
    return tmp_path / "w.yaml", tmp_path / "d.yaml"


def test_files(cli: Cli, files: tuple[Path, Path], platform: Path) -> None:
    workload, deployment = files
    words = ("simulate", "--workload", workload, "--platform", platform)
    assert answer(cli, *words)["served"][0]["instances"][0]["strategy"] == "heft"
    found = answer(cli, *words, "--deployment", deployment)
    assert found["served"][0]["instances"][0]["strategy"] == "single:cpu"
    assert found["requests"] == 40


def test_a_saved_plan(cli: Cli, model: Path, platform: Path, tmp_path: Path) -> None:
    words = ("--rate", 300, "--requests", 200)
    made = tmp_path / "made"
    planned = cli(
        "simulate", model, "--platform", platform, "--strategy", "single:cpu", "--out", made
    )
    assert planned.exit_code == 0, planned.stderr
    found = answer(cli, "simulate", made / "plan.json", *words)
    again = answer(
        cli, "simulate", model, "--platform", platform, "--strategy", "single:cpu", *words
    )
    assert found["streams"] == again["streams"]
    assert found["served"][0]["instances"][0]["strategy"] == "single:cpu"
    for given in (("--platform", platform), ("--strategy", "heft"), ("--deployment", "d.yaml")):
        result = cli("simulate", made / "plan.json", *words, *given)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


BAD = [
    (("--rate", "-3"), 2, "'-3' is not a rate above 0"),
    (("--rate", "nan"), 2, "'nan' is not a rate above 0"),
    (("--rate", "1e300", "--requests", "5"), 3, "above 1e+12"),
    (
        ("--rate", "3", "--concurrency", "2"),
        2,
        "both of --rate and --concurrency are given; give one",
    ),
    (("--slo", "p99=3ms"), 2, "neither of --rate and --concurrency is given"),
    (("--rate", "3", "--slo", "p100=3ms"), 3, "100 is not a percentile"),
    (("--rate", "3", "--slo", "p0=3ms"), 3, "0 is not a percentile"),
    (("--rate", "3", "--slo", "p99=3"), 3, "the time has no unit"),
    (("--rate", "3", "--within", "0%"), 2, "'0%' is not a share above 0, e.g. 2%"),
    (("--rate", "3", "--within", "p99"), 2, "'p99' is not a share above 0, e.g. 2%"),
    (("--within", "2%"), 2, "neither of --rate and --concurrency is given"),
    (("--rate", "3", "--arrivals", "gamma:x"), 2, "is not gamma:CV"),
    (("--rate", "3", "--arrivals", "burst:1.5"), 2, "is not burst:SIZE"),
    (("--rate", "3", "--arrivals", "gamma:99"), 3, "cv is 99"),
    (("--concurrency", "3", "--arrivals", "poisson"), 2, "--arrivals needs --rate"),
    (("--rate", "3", "--think", "3ms"), 2, "--think needs --concurrency"),
    (("--concurrency", "3"), 2, "give --requests or --duration"),
    (("--rate", "3", "--batching", "x"), 2, "is not MAX[:TIME]"),
    (("--rate", "3", "--batching", "0"), 3, "max_batch_size is 0"),
    (("--rate", "3", "--batching", "4"), 3, "cannot run batches of 1, 2, 4"),
    (("--rate", "3", "--samples", "3"), 2, "--samples belongs to 'hetsim simulate MODEL'"),
    (("--rate", "3", "--inject", "kill gpu at 1ms"), 2, "there is no device 'gpu' to fail"),
    (("--rate", "3", "--mtbf", "2h"), 2, "--mtbf needs --mttr"),
    (("--rate", "3", "--mtbf", "2h", "--mttr", "x=5min"), 2, "no device 'x' for mttr_s"),
    (("--rate", "3", "--mtbf", "2"), 2, "'2': write a number and h, min, s"),
    (("--rate", "3", "--mtbf", "2h", "--mtbf", "1h"), 2, "one time for all, or DEVICE=TIME"),
    (("--rate", "3", "--strategy", "hefd"), 2, "did you mean 'heft'?"),
    (("--rate", "3", "--dim", "q=2"), 2, "no input has a dimension named 'q'"),
    (("--rate", "3", "--workload", "w.yaml"), 2, "a workload names its models"),
]


@pytest.mark.parametrize(("words", "code", "told"), BAD, ids=lambda value: str(value)[:30])
def test_bad_words(
    words: tuple[str, ...], code: int, told: str, cli: Cli, model: Path, platform: Path,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    result = cli("simulate", model, "--platform", platform, *words)
    assert result.exit_code == code
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert sorted(tmp_path.rglob("*")) == before


def test_bad_files(cli: Cli, files: tuple[Path, Path], platform: Path, model: Path) -> None:
    workload, deployment = files
    words = ("simulate", "--workload", workload, "--platform", platform)
    for given, code, told in (
        (("--rate", 3), 2, "--rate cannot go with --workload"),
        (("--seed", 3), 2, "--seed cannot go with --workload"),
        (("--deployment", deployment, "--strategy", "heft"), 2, "--strategy cannot go with"),
        (("--deployment", workload), 3, "w.yaml:1: "),
    ):
        result = cli(*words, *given)
        assert (result.exit_code, result.stderr.count("\n")) == (code, 1)
        assert told in result.stderr
    static = deployment.with_name("static.yaml")
    static.write_text(DEPLOYMENT.replace("dynamic.onnx", "tiny.onnx"))
    workload.write_text(WORKLOAD.replace("dynamic.onnx", "tiny.onnx"))
    result = cli(*words, "--deployment", static)
    assert result.exit_code == 3
    assert f"{static}:2: " in result.stderr
    assert "cannot run batches of 1, 4: the first dimension of input 'x' is 2" in result.stderr
    static.write_text(static.read_text().replace("{count: 2}", "{devices: [npv]}"))
    static.write_text(static.read_text().replace("    batch_sizes: [1, 4]\n", ""))
    result = cli("simulate", "--platform", platform)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "give MODEL, PLAN.json, or --workload FILE" in result.stderr


def test_prices_and_the_bad_end(cli: Cli, model: Path, platform: Path) -> None:
    words = ("simulate", model, "--platform", platform, "--rate", 50, "--requests", 300)
    slo = ("--slo", "p90=1s")
    found = answer(cli, *words, *slo, "--price", "platform=0.36/h")
    assert found["cost"]["usd"] == pytest.approx(1e-4 * found["duration_s"])
    assert found["cost"]["charges"][0]["source"] == "as asked"
    [stream], [worse] = found["streams"], found["bad_end"]["streams"]
    assert worse["requests"] == stream["requests"]
    assert worse["latency_mean_s"] > stream["latency_mean_s"]
    assert worse["objectives"][0]["verdict"]
    bought = ("--price", "*=100", "--depreciation", "3y", "--tariff", 0.2)
    assert answer(cli, *words, *bought)["cost"]["usd"] > 0
    alone = answer(cli, *words, "--pessimistic")
    assert alone["bad_end"] is None
    every = [word for share in (50, 75, 95, 99) for word in ("--slo", f"p{share}=1s")]
    text = cli(*words, *every).stdout
    assert "unknown for cpu, " in text
    assert "pessimistic" in text
    assert all(f"  {word.removesuffix('=1s')}  " in text for word in every[1::2])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--price", "cpu"), "is not NAME=PRICE"),
        (("--price", "cpu=1/w"), "'1/w' is not a price"),
        (("--price", "xpu=1/h"), "a price for 'xpu', which the platform does not have"),
        (("--tariff", "0"), "is not a finite number above 0"),
    ],
)
def test_bad_prices(
    words: tuple[str, ...], said: str, cli: Cli, model: Path, platform: Path
) -> None:
    result = cli("simulate", model, "--platform", platform, "--rate", 5, *words)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert said in result.stderr


def test_what_is_told_of_an_overloaded_model(cli: Cli, model: Path, platform: Path) -> None:
    words = ("simulate", model, "--platform", platform, "--strategy", "single:cpu")
    words += ("--rate", "9e6", "--requests", 3000, "--slo", "p97=1ms")  # type: ignore[assignment]
    text = cli(*words).stdout
    # Where lines are folded depends on how long the model's path is.
    assert "latency grows without limit" in " ".join(text.split())
    # The percentile that is asked for is shown, and none has a figure.
    lines = [line.split() for line in text.splitlines()]
    at = lines.index(["requests", "3000", "mean", "-", "-"])
    assert lines[at + 1 : at + 4] == [["p50", "-", "-"], ["p97", "-", "-"], ["p99", "-", "-"]]


def test_replicas_that_come_and_go(cli: Cli, model: Path, platform: Path, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKLOAD.replace("dynamic.onnx", str(model)))
    scaled = """\
    instances: [{count: 2}]
    autoscaling: {max_replicas: 2, target_ongoing_requests: 0.01, upscale_delay_s: 0}
"""
    deployment = f"models:\n  - model: {model}\n    strategy: single:cpu\n{scaled}"
    (tmp_path / "d.yaml").write_text(deployment)
    words = ["simulate", "--platform", platform, "--workload", tmp_path / "w.yaml"]
    words += ["--deployment", tmp_path / "d.yaml", "--price", "*=0.5/h"]
    found = answer(cli, *words)["autoscaling"]
    [one] = found["models"]
    assert one["config"]["look_back_period_s"] == 30
    assert one["starts"] == 1
    assert one["replica_seconds"] >= one["fewest"]["replica_seconds"] > 0
    assert max(one["over_time"]["running"]) == one["replicas_most"] == 2
    assert [each["models"][0]["replicas"] for each in found["fixed"]] == [1, 2]
    assert all(each["hardware_usd"] > 0 for each in found["fixed"])
    shown = " ".join(cli(*words).stdout.split())
    for word in ("autoscaled", "fixed at 2", "replica-hours", "without startup_s", "lower bound"):
        assert word in shown
    (tmp_path / "d.yaml").write_text(deployment.replace("max_replicas: 2", "max_replicas: 3"))
    result = cli(*words)
    assert result.exit_code == 3
    assert "d.yaml:5: autoscaling has max_replicas 3, but 2 instances" in result.stderr
