"""A page's slider says at each of its stops what the command beside it prints."""

from __future__ import annotations

import json
import random
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from browsing import Compared, Open, Opened
from cli_calls import call, record_of
from hetsim.reporting.pages.saved import read_all
from hetsim.reporting.tables.verdicts import latency_text
from onnx_builders import make_model, op, value
from platforms import CPU_AND_NPU
from sweeps import sweep

Record = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three ops on a CPU and an NPU that are as fast, and a link."""
    folder = tmp_path_factory.mktemp("asked")
    weights = {f"w{k}": np.full((256, 256), 0.5, np.float32) for k in (1, 2)}
    made = make_model(
        [op("MatMul", "x w1", "a"), op("Relu", "a", "b"), op("MatMul", "b w2", "y")],
        [value("x", ("batch", 256))],
        [value("y", ("batch", 256))],
        weights,
    )
    onnx.save(made, folder / "dense.onnx")
    (folder / "other.onnx").write_bytes((folder / "dense.onnx").read_bytes())
    (folder / "pair.yaml").write_text(CPU_AND_NPU)
    return folder


def hetsim(*words: object, codes: tuple[int, ...] = (0,)) -> str:
    """Call the command line; return what it prints."""
    result = call(*words)
    assert result.exit_code in codes, (words, result.stderr)
    return result.stdout


def asked_again(command: str) -> Record:
    """Run the command that a page shows; return its record."""
    program, *words = shlex.split(command)
    assert program == "hetsim"
    return record_of(*words)


def short(value: float) -> float:
    return float(f"{value:.3g}")


def moved(one: Opened, stop: int) -> tuple[dict[str, str], str]:
    """Move the slider to a stop; return the figures that the page shows, and its command."""
    one.page.locator("#rate").evaluate(
        "(range, to) => { range.value = to; range.dispatchEvent(new Event('input')); }", stop
    )
    rows = one.page.eval_on_selector_all(
        "#view-load .answer .figures tr",
        "rows => rows.map(row => [...row.children].map(c => c.textContent))",
    )
    return dict(rows), one.page.locator("#view-load .answer .command code").first.inner_text()


def check_stops(
    one: Opened, rng: random.Random, count: int, *moves: str, compared: Compared
) -> None:
    """At the first and at random stops the figures are those of the command, digit by digit."""
    one.show("load")
    load = one.page.evaluate("hetsim.island.pictures.load[0]")
    stops = [k for k in range(len(load["stops"])) if k != load["start"]]
    for stop in (load["start"], *rng.sample(stops, min(count, len(stops)))):
        rows, command = moved(one, stop)
        record = asked_again(command)
        if stop == load["start"] and moves[0] == "simulate":
            shown = one.page.evaluate("hetsim.island.record.streams")
            assert shown == record["streams"]
        several = len(record["streams"]) > 1
        assert rows["state"] == record["state"]
        assert rows["bottleneck"].startswith(f"{record['bottleneck']}, ")
        for stream in record["streams"]:
            of = f" of {stream['name']}" if several else ""
            known = {f"p{each['percentile']:g}{of}": each for each in stream["percentiles"]}
            [name] = [row for row in rows if re.fullmatch(rf"p[0-9.]+{of}", row)]
            said = latency_text(known[name]) if known else "grows without limit"
            assert rows[name] == said
            verdicts = [each["verdict"] for each in stream["objectives"]]
            assert rows[f"objectives{of}"] == ", ".join(verdicts)
        compared(*moves)


WAYS = [
    ("--strategy", "single:cpu"),
    ("--strategy", "heft", "--instances", "2"),
    ("--strategy", "single:cpu", "--batching", "4:200us"),
    ("--strategy", "single:npu", "--arrivals", "gamma:2.5"),
    ("--strategy", "heft", "--arrivals", "burst:4"),
    ("--strategy", "single:cpu", "--arrivals", "constant"),
]


@sweep("seed", quick=[0], full=range(12))
def test_rates_of_a_simulation(seed: int, folder: Path, opened: Open, compared: Compared) -> None:
    rng = random.Random(seed)
    way = WAYS[seed % len(WAYS)]
    path = folder / f"simulated{seed}.html"
    question = ("simulate", folder / "dense.onnx", "--platform", folder / "pair.yaml", *way)
    binding = [] if "--batching" in way else ["--dim", "batch=1"]
    hetsim(
        *question, *binding, "--rate", rng.choice([2000, 5000, 9000]), "--slo",
        f"p{rng.choice([90, 99])}={rng.choice([0.3, 0.5, 1])}ms", "--requests",
        rng.choice([800, 6000]), "--seed", rng.randrange(99), "--report", path,
    )  # fmt: skip
    check_stops(opened(path), rng, 3 if not seed else 10, "simulate", "rate", compared=compared)


STREAMS = """\
streams:
  first:
    model: dense.onnx
    dims: {{batch: 1}}
    arrivals: {{poisson: {{rate_per_s: {first}}}}}
    slos: p90={limit}ms
  second:
    model: other.onnx
    dims: {{batch: 1}}
    arrivals: {{constant: {{rate_per_s: {second}}}}}
    slos: p99=2ms
requests: {requests}
seed: {seed}
"""


@pytest.mark.sweep
@sweep(
    "verb, seed",
    quick=[("recommend", 0)],
    full=[*(("recommend", k) for k in range(4)), ("simulate", 4)],
)
def test_rates_of_several_streams(
    verb: str, seed: int, folder: Path, opened: Open, compared: Compared
) -> None:
    """By ``--speedup``, of the files that the page says how to leave."""
    rng = random.Random(500 + seed)
    path, file, out = (folder / f"{verb}{seed}{end}" for end in (".html", ".yaml", ".out.yaml"))
    asked = {
        "first": rng.randrange(500, 4000), "second": rng.randrange(500, 4000),
        "limit": rng.choice([0.4, 1]), "requests": rng.choice([500, 2000]), "seed": seed,
    }  # fmt: skip
    file.write_text(STREAMS.format(**asked))
    more = ("--placements", 2, "--out", out) if verb == "recommend" else ()
    hetsim(
        verb, "--workload", file, "--platform", folder / "pair.yaml", "--report", path, *more,
        codes=(0, 5, 6),
    )  # fmt: skip
    check_stops(opened(path), rng, 2 if not seed else 10, verb, "rate", compared=compared)


def test_a_rate_at_which_a_percentile_is_of_rejected_requests(folder: Path) -> None:
    """It has no point in the figure, and the slider says so."""
    path, file = folder / "rejected.html", folder / "rejected.yaml"
    file.write_text("""\
models:
  - {model: dense.onnx, strategy: "single:cpu", queue_policy: {max_queue_size: 1}}
  - {model: other.onnx, strategy: "single:npu"}
""")
    asked = folder / "two.yaml"
    asked.write_text(STREAMS.format(first=2000, second=500, limit=1, requests=500, seed=0))
    hetsim(
        "simulate", "--workload", asked, "--platform", folder / "pair.yaml", "--deployment", file,
        "--report", path,
    )  # fmt: skip
    [load] = read_all(path)[0].pictures["load"]
    said = [dict(stop["figures"])["p90 of first"] for stop in load["stops"]]
    assert "beyond the answered requests" in said
    line = next(one for one in load["figure"]["data"] if one.get("name") == "p90 of first")
    assert [seconds is None for seconds in line["y"]] == [
        text.startswith("beyond") for text in said if text != "grows without limit"
    ]


RECOMMENDED = """\
streams:
  busy:
    model: dense.onnx
    dims: {{batch: 1}}
    arrivals: {{constant: {{rate_per_s: {rate}}}}}
    slos: p99={limit}ms
requests: 300
seed: {seed}
"""


@sweep("seed", quick=[0], full=range(6))
def test_the_cheapest_platform_at_other_rates(
    seed: int, folder: Path, opened: Open, compared: Compared
) -> None:
    rng = random.Random(200 + seed)
    for number in range(30):
        path, file = folder / f"offers{seed}-{number}.html", folder / f"offers{seed}-{number}.yaml"
        rate, limit = short(rng.uniform(2e3, 4e4)), rng.choice([0.3, 0.5, 1, 5])
        file.write_text(RECOMMENDED.format(rate=rate, limit=limit, seed=seed))
        words = ["recommend", "--workload", file, "--max-devices", 4]
        words += ["--catalog", "rock-5b,jetson-orin-nano", "--price", "rock-5b=0.05/h"]
        words += ["--price", "jetson-orin-nano=0.12/h", "--report", path]
        hetsim(*words, "--out", folder / f"chosen{seed}-{number}", codes=(0, 5))
        if json.loads(hetsim(*words[:-2], "--json", codes=(0, 5)))["answer"] is not None:
            break
    check_stops(opened(path), rng, 1 if not seed else 8, "recommend", "rate", compared=compared)
