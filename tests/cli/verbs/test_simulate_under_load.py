"""``hetsim simulate`` with a rate, clients or a workload: tables, JSON, and bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_calls import call, ok, record_of, refused

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


def test_a_rate(model: Path, platform: Path) -> None:
    words = ("simulate", model, "--platform", platform, "--rate", 200, "--requests", 300)
    found = record_of(*words, "--slo", "p99=50ms", "--slo", "90%<=1us", "--seed", 5)
    assert found["schema"] == "hetsim-service/1"
    assert (found["requests"], found["seed"], found["end"]) == (300, 5, "ended")
    [stream] = found["streams"]
    assert [one["share_on_time"] for one in stream["objectives"]] == [0.99, 0.9]
    assert [one["on_time"] for one in stream["objectives"]] == [1, 0]
    assert record_of(*words, "--seed", 5)["streams"][0]["latency_mean_s"] == pytest.approx(
        stream["latency_mean_s"], rel=0
    )
    shown = call(*words).stdout
    for word in ("figures ", "served ", "simulated ", "bottleneck ", "p99 ", "95 %", "waited,"):
        assert word in shown


def test_until_it_is_answered(model: Path, platform: Path) -> None:
    found = record_of("simulate", model, "--platform", platform, "--rate", 200, "--slo", "p99=1s")
    assert found["end"] == "answered"
    assert found["streams"][0]["objectives"][0]["verdict"] == "meets"


def test_until_it_is_precise(model: Path, platform: Path) -> None:
    words = ("simulate", model, "--platform", platform, "--rate", 200, "--within", "10%")
    found = record_of(*words)
    assert found["end"] == "answered"
    [p99] = [one for one in found["streams"][0]["percentiles"] if one["percentile"] == 99.0]
    assert p99["high_s"] - p99["low_s"] <= 0.2 * p99["latency_s"]


@pytest.mark.parametrize("ends", ["10%", "0.01%"])
def test_without_objectives_none_is_decided_or_undecided(
    ends: str, model: Path, platform: Path
) -> None:
    words = ("--rate", 200, "--within", ends, "--requests", 20_000)
    assert "decided" not in ok("simulate", model, "--platform", platform, *words).stdout


@pytest.mark.parametrize("kind", ["constant", "poisson", "gamma:2", "burst:4"])
def test_kinds_of_arrivals(kind: str, model: Path, platform: Path) -> None:
    words = ("simulate", model, "--platform", platform, "--rate", 50, "--arrivals", kind)
    assert record_of(*words, "--duration", "2s")["state"] == "stable"


def test_clients(model: Path, platform: Path) -> None:
    words = ("simulate", model, "--platform", platform, "--concurrency", 3, "--requests", 60)
    assert record_of(*words, "--think", "2ms")["requests"] == 60


def test_batches(dynamic_model: Path, platform: Path) -> None:
    found = record_of(
        "simulate", dynamic_model, "--platform", platform, "--rate", 40000, "--requests", 500,
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


def test_files(files: tuple[Path, Path], platform: Path) -> None:
    workload, deployment = files
    words = ("simulate", "--workload", workload, "--platform", platform)
    assert record_of(*words)["served"][0]["instances"][0]["strategy"] == "heft"
    found = record_of(*words, "--deployment", deployment)
    assert found["served"][0]["instances"][0]["strategy"] == "single:cpu"
    assert found["requests"] == 40


def test_a_saved_plan(model: Path, platform: Path, tmp_path: Path) -> None:
    words = ("--rate", 300, "--requests", 200)
    made = tmp_path / "made"
    ok("simulate", model, "--platform", platform, "--strategy", "single:cpu", "--out", made)
    found = record_of("simulate", made / "plan.json", *words)
    again = record_of("simulate", model, "--platform", platform, "--strategy", "single:cpu", *words)
    assert found["streams"] == again["streams"]
    assert found["served"][0]["instances"][0]["strategy"] == "single:cpu"
    for given in (("--platform", platform), ("--strategy", "heft"), ("--deployment", "d.yaml")):
        result = call("simulate", made / "plan.json", *words, *given)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


def test_bad_files(files: tuple[Path, Path], platform: Path, model: Path) -> None:
    workload, deployment = files
    words = ("simulate", "--workload", workload, "--platform", platform)
    for given, code, told in (
        (("--rate", 3), 2, "--rate cannot go with --workload"),
        (("--seed", 3), 2, "--seed cannot go with --workload"),
        (("--deployment", deployment, "--strategy", "heft"), 2, "--strategy cannot go with"),
        (("--deployment", workload), 3, "w.yaml:1: "),
    ):
        refused(call(*words, *given), code, told)
    static = deployment.with_name("static.yaml")
    static.write_text(DEPLOYMENT.replace("dynamic.onnx", "tiny.onnx"))
    workload.write_text(WORKLOAD.replace("dynamic.onnx", "tiny.onnx"))
    refused(
        call(*words, "--deployment", static),
        3,
        f"{static}:2: ",
        "cannot run batches of 1, 4: the first dimension of input 'x' is 2",
    )
    static.write_text(static.read_text().replace("{count: 2}", "{devices: [npv]}"))
    static.write_text(static.read_text().replace("    batch_sizes: [1, 4]\n", ""))
    refused(
        call("simulate", "--platform", platform), 2, "give MODEL, PLAN.json, or --workload FILE"
    )


def test_prices_and_the_bad_end(model: Path, platform: Path) -> None:
    words = ("simulate", model, "--platform", platform, "--rate", 50, "--requests", 300)
    slo = ("--slo", "p90=1s")
    found = record_of(*words, *slo, "--price", "platform=0.36/h")
    assert found["cost"]["usd"] == pytest.approx(1e-4 * found["duration_s"])
    assert found["cost"]["charges"][0]["source"] == "as asked"
    [stream], [worse] = found["streams"], found["bad_end"]["streams"]
    assert worse["requests"] == stream["requests"]
    assert worse["latency_mean_s"] > stream["latency_mean_s"]
    assert worse["objectives"][0]["verdict"]
    bought = ("--price", "*=100", "--depreciation", "3y", "--tariff", 0.2)
    assert record_of(*words, *bought)["cost"]["usd"] > 0
    alone = record_of(*words, "--pessimistic")
    assert alone["bad_end"] is None
    every = [word for share in (50, 75, 95, 99) for word in ("--slo", f"p{share}=1s")]
    text = call(*words, *every).stdout
    assert "unknown for cpu, " in text
    assert "pessimistic" in text
    assert all(f"  {word.removesuffix('=1s')}  " in text for word in every[1::2])


def test_what_is_told_of_an_overloaded_model(model: Path, platform: Path) -> None:
    words = ("simulate", model, "--platform", platform, "--strategy", "single:cpu")
    words += ("--rate", "9e6", "--requests", 3000, "--slo", "p97=1ms")  # type: ignore[assignment]
    text = call(*words).stdout
    # Where lines are folded depends on how long the model's path is.
    assert "latency grows without limit" in " ".join(text.split())
    # The percentile that is asked for is shown, and none has a figure.
    lines = [line.split() for line in text.splitlines()]
    at = lines.index(["requests", "3000", "mean", "-", "-"])
    assert lines[at + 1 : at + 4] == [["p50", "-", "-"], ["p97", "-", "-"], ["p99", "-", "-"]]
    bounded = model.with_name("d.yaml")
    bounded.write_text(
        f"models: [{{model: {model}, strategy: single, queue_policy: {{max_queue_size: 1000}}}}]\n"
    )
    text = " ".join(call(*words[:4], *words[6:], "--deployment", bounded).stdout.split())
    assert text.count("the others are rejected") == 2
    assert "without limit" not in text


def test_replicas_that_come_and_go(model: Path, platform: Path, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(WORKLOAD.replace("dynamic.onnx", str(model)))
    scaled = """\
    instances: [{count: 2}]
    autoscaling: {max_replicas: 2, target_ongoing_requests: 0.01, upscale_delay_s: 0}
"""
    deployment = f"models:\n  - model: {model}\n    strategy: single:cpu\n{scaled}"
    (tmp_path / "d.yaml").write_text(deployment)
    words = ["simulate", "--platform", platform, "--workload", tmp_path / "w.yaml"]
    words += ["--deployment", tmp_path / "d.yaml", "--price", "*=0.5/h"]
    found = record_of(*words)["autoscaling"]
    [one] = found["models"]
    assert one["config"]["look_back_period_s"] == 30
    assert one["starts"] == 1
    assert one["replica_seconds"] >= one["fewest"]["replica_seconds"] > 0
    assert max(one["over_time"]["running"]) == one["replicas_most"] == 2
    assert [each["models"][0]["replicas"] for each in found["fixed"]] == [1, 2]
    assert all(each["hardware_usd"] > 0 for each in found["fixed"])
    shown = " ".join(call(*words).stdout.split())
    for word in ("autoscaled", "fixed at 2", "replica-hours", "without startup_s", "lower bound"):
        assert word in shown
    (tmp_path / "d.yaml").write_text(deployment.replace("max_replicas: 2", "max_replicas: 3"))
    refused(call(*words), 3, "d.yaml:5: autoscaling has max_replicas 3, but 2 instances")
