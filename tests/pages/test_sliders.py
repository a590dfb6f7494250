"""What a page's sliders say equals what the command beside them prints, setting by setting."""

from __future__ import annotations

import json
import math
import random
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner

from browsing import Compared, Open, Opened
from hetsim.cli.main import main
from hetsim.reporting.pages.islands.service import latency_text
from hetsim.reporting.pages.islands.shared import percent, seconds
from onnx_builders import make_model, op, value
from platforms import CPU_AND_NPU
from sweeps import sweep

Record = dict[str, Any]
Ask = Callable[..., Record]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of three ops on a CPU and an NPU that are as fast, and a link."""
    folder = tmp_path_factory.mktemp("asked")
    weights = {f"w{k}": [[0.5] * 256] * 256 for k in (1, 2)}
    made = make_model(
        [op("MatMul", "x w1", "a"), op("Relu", "a", "b"), op("MatMul", "b w2", "y")],
        [value("x", ("batch", 256))],
        [value("y", ("batch", 256))],
        {name: _array(rows) for name, rows in weights.items()},
    )
    onnx.save(made, folder / "dense.onnx")
    (folder / "pair.yaml").write_text(CPU_AND_NPU)
    return folder


def _array(rows: list[list[float]]) -> Any:
    import numpy as np

    return np.array(rows, dtype=np.float32)


def hetsim(*words: object, codes: tuple[int, ...] = (0,)) -> str:
    """Call the command line; return what it prints."""
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code in codes, (words, result.stderr)
    return result.stdout


def asked_again(command: str, *, codes: tuple[int, ...] = (0,)) -> Record:
    """Run the command that a page shows; return its record."""
    program, *words = shlex.split(command)
    assert program == "hetsim"
    found: Record = json.loads(hetsim(*words, "--json", codes=codes))
    return found


def moved(one: Opened, view: str, name: str, to: float) -> None:
    """Write a number beside the slider of that name."""
    field = one.page.locator(
        f"#view-{view} .slider", has=one.page.locator(f"label:text-is('{name}')")
    )
    field.locator("input[type=number]").fill(repr(to))
    field.locator("input[type=number]").dispatch_event("change")


def answer(one: Opened, view: str) -> tuple[str, str]:
    """What the page says of the setting, and the command beside it."""
    one.page.wait_for_timeout(60)
    box = one.page.locator(f"#view-{view} .answer")
    return box.locator(".said").inner_text(), box.locator(".command code").first.inner_text()


def short(value: float) -> float:
    return float(f"{value:.3g}")


def figure_text(one: Record) -> str:
    """A percentile as the table has it, which says once below that there are too few for one."""
    return latency_text(one).removesuffix(" (too few for an interval)")


def check_service(one: Opened, record: Record) -> None:
    """The figures that the page shows are those of the record, digit by digit and bit by bit."""
    service = one.page.evaluate("hetsim.answers.last.service")
    rows = dict(
        one.page.eval_on_selector_all(
            "#view-load .figures tr",
            "rows => rows.map(row => [...row.children].map(c => c.textContent))",
        )
    )
    assert service["state"] == record["state"] == rows["it is"]
    assert service["bottleneck"] == record["bottleneck"]
    assert service["duration_s"] == record["duration_s"]
    assert service["on_time"] == record["on_time"]
    [mine], [stream] = service["streams"], record["streams"]
    assert len(mine["percentiles"]) == len(stream["percentiles"])
    for shown, known in zip(mine["percentiles"], stream["percentiles"], strict=True):
        for key in ("percentile", "latency_s", "low_s", "high_s", "enough"):
            said = shown[key]
            assert (None if said == math.inf else said) == known[key], (key, shown, known)
        assert rows[f"p{known['percentile']:g}"] == figure_text(known)
    for shown, known in zip(mine["objectives"], stream["objectives"], strict=True):
        assert shown["verdict"] == known["verdict"]
        assert shown["on_time"] == known["on_time"]
        assert rows[f"within {seconds(known['latency_s'])}"] == percent(known["on_time"])


def check_streams(one: Opened, record: Record) -> None:
    """What the page says of several streams is what the record says of them."""
    service = one.page.evaluate("hetsim.answers.last.service")
    for shown, known in zip(service["streams"], record["streams"], strict=True):
        assert shown["name"] == known["name"]
        mine, theirs = (
            [(_told(each["latency_s"]), each["low_s"]) for each in of["percentiles"]]
            for of in (shown, known)
        )
        assert mine == theirs
        mine, theirs = (
            [(each["verdict"], each["on_time"]) for each in of["objectives"]]
            for of in (shown, known)
        )
        assert mine == theirs
    for key in ("state", "bottleneck", "duration_s", "on_time"):
        assert service[key] == record[key]


def _told(seconds: float | None) -> float | None:
    return None if seconds == math.inf else seconds


@sweep("seed", quick=[0], full=range(24))
def test_rate_limit_and_price_of_a_simulation(
    seed: int, folder: Path, opened: Open, compared: Compared
) -> None:
    """By the recursion, by the clock with queues and batches, at any rate and limit."""
    rng = random.Random(seed)
    ways = [
        ("--strategy", "single:cpu"),
        ("--strategy", "heft"),
        ("--strategy", "heft", "--instances", "2"),
        ("--strategy", "single:cpu", "--batching", "4:200"),
        ("--strategy", "single:npu", "--batching", "8"),
        ("--strategy", "single:npu", "--arrivals", "gamma:2.5"),
        ("--strategy", "heft", "--arrivals", "burst:4"),
        ("--strategy", "single:cpu", "--arrivals", "constant"),
    ]
    way = ways[seed % len(ways)]
    path = folder / f"simulated{seed}.html"
    alone = json.loads(
        hetsim("simulate", folder / "dense.onnx", "--dim", "batch=1", "--platform",
               folder / "pair.yaml", *way[:2], "--json")
    )["timeline"]["latency_s"]  # fmt: skip
    rate, limit = short(rng.uniform(0.2, 0.9) / alone), short(alone * 1e3 * rng.uniform(1.2, 6))
    binding = [] if "--batching" in way else ["--dim", "batch=1"]
    requests = 800 if not seed else rng.choice([1500, 6000])
    hetsim(
        "simulate", folder / "dense.onnx", *binding, "--platform", folder / "pair.yaml", *way,
        "--rate", rate, "--slo", f"p{rng.choice([90, 99])}={limit}ms", "--requests", requests,
        "--seed", rng.randrange(99), "--report", path,
    )  # fmt: skip
    one = opened(path)
    one.show("load")
    [slo] = one.page.evaluate("hetsim.island.pictures.served.rows[0].limits[0]")
    name = f"p{slo['percentile']:g} within"
    for _ in range(2 if not seed else 5):
        what = rng.choice([["limit"], ["rate"], ["rate", "limit"], ["rate", "limit", "price"]])
        if "rate" in what:
            moved(one, "load", "rate", short(rate * rng.uniform(0.3, 2.2)))
        if "limit" in what:
            moved(one, "load", name, short(limit * rng.uniform(0.5, 2)))
        if "price" in what:
            moved(one, "load", "price of the platform", short(rng.uniform(0.01, 3)))
        _, command = answer(one, "load")
        record = asked_again(command)
        check_service(one, record)
        if "price" in what:
            per_1000 = one.page.evaluate("hetsim.answers.last.service.usd_per_1000")
            assert per_1000 == record["cost"]["usd_per_1000_on_time"]
        compared("simulate", *what)
    moved(one, "load", "its speed", 2)
    said, command = answer(one, "load")
    assert "only the command below says" in said
    assert "--what-if 'device cpu.speed x2'" in command


@sweep("seed", quick=[0], full=range(12))
def test_speeds_of_devices_under_a_plan_that_is_kept(
    seed: int, tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch, compared: Compared
) -> None:
    """What compare's best plan takes then is what the saved plan does."""
    rng = random.Random(seed)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pair.yaml").write_text(CPU_AND_NPU)
    onnx.save(unlike_branches(rng.randrange(2, 6)), tmp_path / "branches.onnx")
    words = ("branches.onnx", "--platform", "pair.yaml", "--strategy", "heft", "--draws", "0")
    verb = "compare" if seed % 2 == 0 else "simulate"
    hetsim(verb, *words, "--report", "page.html")
    one = opened(tmp_path / "page.html")
    one.show("speeds")
    leave = one.page.locator("#view-speeds .command code").first.inner_text()
    assert shlex.split(leave)[-2:] == ["--out", "kept"]
    hetsim(*shlex.split(leave)[1:])
    data = one.page.evaluate("hetsim.island.pictures.speeds")
    for _ in range(1 if not seed else 4):
        for place, _device in enumerate(data["devices"]):
            stop = rng.randrange(len(data["stops"]) + 1)
            one.page.locator(f"#speed-{place}").evaluate(
                "(range, to) => { range.value = to; range.dispatchEvent(new Event('input')); }",
                stop,
            )
        one.page.wait_for_timeout(60)
        said = one.page.locator("#view-speeds .said").inner_text()
        play = one.page.locator("#view-speeds .command code").nth(1).inner_text()
        record = asked_again(play)
        latency_s = record["timeline"]["latency_s"]
        assert one.page.evaluate("hetsim.answers.last.seconds") == latency_s
        assert f"kept: {seconds(latency_s)}" in said
        compared(verb, "speed")


def unlike_branches(count: int) -> onnx.ModelProto:
    """Branches of products that meet in a sum: work for two devices, and transfers."""
    nodes, weights, ends = [], {}, []
    for k in range(count):
        width = 128 * (k + 1)
        weights[f"w{k}"] = _array([[0.1] * width] * 256)
        weights[f"v{k}"] = _array([[0.1] * 256] * width)
        nodes += [op("MatMul", f"x w{k}", f"a{k}"), op("MatMul", f"a{k} v{k}", f"b{k}")]
        ends.append(f"b{k}")
    nodes.append(op("Sum", " ".join(ends), "y"))
    return make_model(nodes, [value("x", (64, 256))], [value("y", (64, 256))], weights)


@sweep("seed", quick=[], full=range(8))
def test_capacity_at_any_rate(seed: int, folder: Path, opened: Open, compared: Compared) -> None:
    """The exit code of ``--target-rate``, and what ``simulate`` says of each row."""
    rng = random.Random(100 + seed)
    path = folder / f"capacity{seed}.html"
    words = (
        "capacity", folder / "dense.onnx", "--dim", "batch=1", "--platform", folder / "pair.yaml",
        "--strategy", rng.choice(["single:cpu", "single:npu"]),
        "--slo", f"p90={rng.choice([0.1, 0.2, 0.5, 1])}ms", "--seed", rng.randrange(99),
        "--requests", 4096 if seed else 1024,
    )  # fmt: skip
    hetsim(*words, "--report", path, codes=(0, 4, 5, 6))
    one = opened(path)
    one.show("load")
    [row] = one.page.evaluate("hetsim.island.pictures.served.rows")
    for _ in range(1 if not seed else 5):
        rate = short(row["ceiling_per_s"] * rng.uniform(0.05, 1.3))
        moved(one, "load", "rate", rate)
        _, command = answer(one, "load")
        if seed:
            check_service(one, asked_again(command))
        capacity = one.page.locator("#view-load .command code").nth(1).inner_text()
        told = one.page.evaluate(f"hetsim.answers.capacityAt(hetsim.island.record, {rate})")
        hetsim(*shlex.split(capacity)[1:], codes=(told["code"],))
        compared("capacity", "rate")


RECOMMENDED = """\
streams:
  busy:
    model: dense.onnx
    dims: {{batch: 1}}
    arrivals: {{constant: {{rate_per_s: {rate}}}}}
    slos: p99={limit}ms
requests: {requests}
seed: {seed}
"""


def recommended(
    rng: random.Random, name: str, folder: Path, opened: Open, requests: int
) -> tuple[Opened, Record]:
    """The page of a random question that has an answer, and what was asked."""
    for number in range(30):
        path, file = folder / f"{name}{number}.html", folder / f"{name}{number}.yaml"
        asked = {
            "rate": short(rng.uniform(2e3, 4e4)), "limit": rng.choice([0.3, 0.5, 1, 5]),
            "requests": requests, "seed": rng.randrange(99),
        }  # fmt: skip
        file.write_text(RECOMMENDED.format(**asked))
        hetsim(
            "recommend", "--workload", file, "--max-devices", 4,
            "--catalog", "rock-5b,jetson-orin-nano", "--price", "rock-5b=0.05/h",
            "--price", "jetson-orin-nano=0.12/h", "--report", path,
            "--out", folder / f"{name}{number}", codes=(0, 5),
        )  # fmt: skip
        if island_of(path)["record"]["answer"] is not None:
            return opened(path), {**asked, "file": file}
    raise AssertionError("no question of 30 has an answer")


def island_of(path: Path) -> Record:
    """What a report's file holds."""
    found = re.search(r'id="hetsim-data">(.*?)</script>', path.read_text("utf-8"), re.S)
    assert found is not None
    read: Record = json.loads(found[1])
    return read


@sweep("seed", quick=[0], full=range(8))
def test_the_cheapest_platform_at_other_prices(
    seed: int, folder: Path, opened: Open, compared: Compared
) -> None:
    """The page's answer is the command's, or it says that only the command knows."""
    rng = random.Random(200 + seed)
    one, _ = recommended(rng, f"prices{seed}", folder, opened, rng.choice([300, 500]))
    one.show("prices")
    wanted = 5 if seed else 1
    for _ in range(20 * wanted):
        for name in ("rock-5b", "jetson-orin-nano"):
            if rng.random() < 0.7:
                moved(one, "prices", name, short(rng.uniform(0.005, 0.3)))
        said, command = answer(one, "prices")
        if "Only a new search" in said:
            continue
        found = asked_again(command)["answer"]
        counts = " + ".join(f"{n} {name}" for name, n in found["counts"].items())
        assert said == f"Best: {counts}, {found['cost']:.4g} USD an hour."
        compared("recommend", "price")
        wanted -= 1
        if not wanted:
            return
    raise AssertionError(f"{wanted} settings more should have an answer")


@sweep("seed", quick=[], full=range(8))
def test_the_cheapest_platform_at_other_rates_and_limits(
    seed: int, folder: Path, opened: Open, compared: Compared
) -> None:
    """What the answer does then is what ``simulate`` says of the files that it leaves."""
    rng = random.Random(400 + seed)
    one, asked = recommended(rng, f"rates{seed}", folder, opened, rng.choice([300, 700]))
    one.show("load")
    for _ in range(3):
        moved(one, "load", "rate", short(rng.uniform(0.2, 4)))
        now_ms = short(asked["limit"] * rng.uniform(0.3, 3))
        moved(one, "load", "p99 within", now_ms)
        said, command = answer(one, "load")
        assert "full clock" not in said
        notes = one.page.locator("#view-load .bounds").inner_text()
        assert f"p99={now_ms:g}ms in the file for busy" in notes
        asked["file"].write_text(RECOMMENDED.format(**(asked | {"limit": now_ms})))
        check_service(one, asked_again(command))
        compared("recommend", "rate", "limit")
        search = one.page.locator("#view-load .command code").nth(1).inner_text()
        assert shlex.split(search)[1] == "recommend"
        assert "--faster" in search


PLACED = """\
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


@sweep("seed", quick=[], full=range(8))
def test_the_best_placement_at_other_rates_limits_and_prices(
    seed: int, folder: Path, opened: Open, compared: Compared
) -> None:
    """What it does then is what ``simulate`` says of the deployment that ``place`` leaves."""
    rng = random.Random(500 + seed)
    (folder / "other.onnx").write_bytes((folder / "dense.onnx").read_bytes())
    path, file, out = (folder / f"placed{seed}{end}" for end in (".html", ".yaml", ".out.yaml"))
    asked = {
        "first": rng.randrange(500, 6000), "second": rng.randrange(500, 6000),
        "limit": rng.choice([0.4, 1]), "requests": rng.choice([500, 2000]), "seed": seed,
    }  # fmt: skip
    file.write_text(PLACED.format(**asked))
    hetsim(
        "place", "--workload", file, "--platform", folder / "pair.yaml", "--placements", 2,
        "--report", path, "--out", out, codes=(0, 5, 6),
    )  # fmt: skip
    one = opened(path)
    one.show("load")
    limit = asked["limit"]
    for _ in range(3):
        what = rng.choice([["rate"], ["rate", "limit"], ["limit", "price"], ["rate", "price"]])
        if "rate" in what:
            moved(one, "load", "rate", short(rng.uniform(0.3, 3)))
        if "limit" in what:
            limit = short(asked["limit"] * rng.uniform(0.3, 3))
            moved(one, "load", "p90 of first within", limit)
        if "price" in what:
            moved(one, "load", "price of the platform", short(rng.uniform(0.01, 3)))
        _, command = answer(one, "load")
        file.write_text(PLACED.format(**(asked | {"limit": limit})))
        record = asked_again(command)
        check_streams(one, record)
        if "price" in what:
            per_1000 = one.page.evaluate("hetsim.answers.last.service.usd_per_1000")
            assert per_1000 == record["cost"]["usd_per_1000_on_time"]
        compared("place", *what)
    search = one.page.locator("#view-load .command code").nth(1).inner_text()
    assert shlex.split(search)[1] == "place"
    bound = hetsim(*shlex.split(search)[1:], "--json", codes=(0, 5, 6))
    most = one.page.evaluate("hetsim.island.pictures.served.rows[0].most_per_s")
    found = json.loads(bound)
    assert math.isclose(found["bound"] * found["rate_per_s"], most, rel_tol=1e-6)
    moved(one, "load", "rate", short(2 * most / (asked["first"] + asked["second"])))
    moved(one, "load", "p90 of first within", short(asked["limit"] / 2))
    answer(one, "load")
    assert "no placement of the instances" in one.page.locator("#view-load .bounds").inner_text()


FILE = """\
streams:
  drawn:
    model: dense.onnx
    dims: {{batch: 1}}
    arrivals: {{poisson: {{rate_per_s: {first}}}}}
    slos: p90=0.4ms
  even:
    model: dense.onnx
    dims: {{batch: 1}}
    arrivals: {{constant: {{rate_per_s: {second}}}}}
    slos: [p50=0.2ms, p99=1ms]
requests: {requests}
seed: {seed}
"""


@sweep("seed", quick=[], full=range(4))
def test_a_file_that_comes_faster(
    seed: int, folder: Path, opened: Open, compared: Compared
) -> None:
    """Several streams, by ``--faster``."""
    rng = random.Random(300 + seed)
    (folder / f"file{seed}.yaml").write_text(
        FILE.format(
            first=rng.randrange(500, 9000), second=rng.randrange(500, 9000),
            requests=500 if not seed else 3000, seed=seed,
        )
    )  # fmt: skip
    path = folder / f"file{seed}.html"
    hetsim(
        "simulate", "--workload", folder / f"file{seed}.yaml", "--platform", folder / "pair.yaml",
        "--report", path,
    )  # fmt: skip
    one = opened(path)
    one.show("load")
    for _ in range(1 if not seed else 5):
        moved(one, "load", "rate", short(rng.uniform(0.3, 4)))
        _, command = answer(one, "load")
        assert "--faster" in command
        record = asked_again(command)
        check_streams(one, record)
        compared("simulate a file", "rate")
