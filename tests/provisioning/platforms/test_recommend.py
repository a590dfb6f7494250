"""What is recommended is what ``simulate`` says of it, and each end of a question has its error."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import yaml
from rich.console import Console

import hetsim
from cli_calls import call, ok
from deployments import model_at, replayed
from hetsim.core.text import to_json
from hetsim.hardware.files.inventory import Catalog, catalog_schema
from hetsim.provisioning.platforms.answer import Recommendation
from hetsim.provisioning.platforms.components import (
    platform_file,
)
from hetsim.provisioning.platforms.priced import priced_catalog
from hetsim.provisioning.platforms.verification import verify
from hetsim.reporting.tables.recommendation import recommendation_record, recommendation_report
from hetsim.workload.arrivals import Constant
from hetsim.workload.files.reader import deployment_record
from hetsim.workload.workload import Slo

CATALOG = """
kinds:
  c: {device: nvidia-t4, link: pcie3-x4, most: 2, price: {usd_per_hour: 1, of: 2024-06, source: x}}
  b: {platform: rock-5b, link: eth1, most: 3, price: {usd: 9, years: 4, of: 2024-06, source: m}}
  node: {platform: intel-core-i9-13900k, price: {usd: 900, years: 4, of: 2024-06, source: a test}}
hosts:
  box: {platform: laptop, slots: 2, price: {usd: 700, years: 4, of: 2024-06, source: a test}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("recommend")
    (made / "catalog.yaml").write_text(CATALOG)
    return made


@pytest.fixture(scope="module")
def catalog(folder: Path) -> Catalog:
    return hetsim.load_catalog(folder / "catalog.yaml")


def bursts(folder: Path, model: str, *slos: Slo, rate: float = 2000.0) -> hetsim.Stream:
    """Thirty bursts of eight that come by chance."""
    draw = np.random.default_rng(3)
    times = np.sort(np.repeat(np.cumsum(draw.exponential(8 / rate, 30)), 8))
    (stream,) = replayed(folder, model, times, *slos).streams
    return replace(stream, name="bursts")


@pytest.fixture(scope="module")
def workload(folder: Path) -> hetsim.Workload:
    batched, fixed = model_at(folder, "n"), model_at(folder, 4)
    even = hetsim.Stream("even", fixed, Constant(300.0), slos=(Slo(0.95, 0.01),))
    return hetsim.Workload((bursts(folder, batched, Slo(0.9, 0.004)), even), requests=200)


def test_the_answer_is_two_files_that_simulate_takes(
    folder: Path, catalog: Catalog, workload: hetsim.Workload
) -> None:
    found = hetsim.recommend(workload, catalog, max_devices=4, tariff_usd_per_kwh=0.3)
    assert found.best is not None
    question, answer = found.found.question, found.found.answer
    assert answer is not None
    for name, data in (
        ("platform", platform_file(question, found.components, answer.counts)),
        ("deployment", deployment_record(found.best.deployment)),
    ):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    platform = hetsim.load_platform(folder / "platform.yaml")
    deployment = hetsim.load_deployment(folder / "deployment.yaml")
    again = hetsim.simulate(deployment, workload, platform=platform)
    assert isinstance(again, hetsim.Service)
    mine = [one.objectives for one in found.best.service.streams]
    assert [one.objectives for one in again.streams] == mine
    assert all(each.verdict.late.late <= each.verdict.late.requests for one in mine for each in one)
    assert platform.price is not None
    assert platform.price.usd_per_hour == pytest.approx(found.best.cost)
    best = answer.best(question)
    assert best is not None
    assert best.played is not None
    for said in best.played.said:
        assert mine[said.stream][said.slo].verdict.late.late == said.late
    assert to_json(recommendation_record(found))


def test_it_says_what_it_rests_on(tmp_path: Path) -> None:
    came = Constant(20.0)
    stream = hetsim.Stream("photos", "zoo:resnet18", came, slos=(Slo(share=0.9, latency_s=0.1),))
    workload = hetsim.Workload((stream,), requests=40)

    def found(draws: int | None) -> Recommendation:
        boards = "rock-5b,pi-5-hailo-8l"
        return hetsim.recommend(workload, boards, objective="devices", samples=draws, max_devices=1)

    told = found(None)
    record = recommendation_record(told)
    assert {one["device"]: (one["precision"], one["as_if"]) for one in record["priced"]} == {
        "rock-5b-cpu": ("float32", False),
        "rock-5b-gpu": ("float32", False),
        # Its float16 times are derived from figures of int8.
        "rock-5b-npu": ("float16", False),
        "pi-5-hailo-8l-cpu": ("float32", False),
        # As the platform's file asks.
        "pi-5-hailo-8l-npu": ("int8", True),
    }
    assert all(one["within_80"] > 1 for one in record["priced"])
    assert record["weakest"] == "estimate"
    assert told.robustness is not None
    share = f"{100 * told.robustness.meets:.3g} % of {told.robustness.draws} Monte Carlo samples"
    assert f"It meets every objective in {share} of cost-model error." in record["verdict"]["say"]
    assert record["doubt"]["right"] is None
    shown_in = io.StringIO()
    console = Console(width=300, file=shown_in)
    console.print(recommendation_report(told))
    shown = shown_in.getvalue()
    assert "float16 on rock-5b-npu; as if int8 on pi-5-hailo-8l-npu" in shown
    assert share in shown
    without = recommendation_record(found(0))
    assert without["doubt"] is None
    assert without["verdict"]["say"].startswith("Cheapest by the point estimates: ")


def test_nothing_is_recommended_that_does_not_meet(folder: Path, catalog: Catalog) -> None:
    model = model_at(folder, 4)
    never = hetsim.Stream("all", model, Constant(100.0), slos=(Slo(0.5, 1e-9),))
    found = hetsim.recommend(
        hetsim.Workload((never,), requests=50), catalog, objective="devices", max_devices=3
    )
    assert found.best is None
    assert found.proved
    with pytest.raises(
        hetsim.Infeasible, match=r"no plan of .* takes less than .*, and the limit is 1\.00 ns"
    ):
        found.require()
    whole = hetsim.recommend(
        hetsim.Workload((hetsim.Stream("all", model, Constant(1e9), slos=(Slo(0.5, 0.005),)),),
                        requests=50_000), catalog, objective="devices", max_devices=1)  # fmt: skip
    with pytest.raises(hetsim.Infeasible, match=r"the arrival rate keeps .* devices busy"):
        whole.require()
    # Two come at once, and one device alone cannot do both in time; more may not be had.
    few = hetsim.load_catalog("nvidia-t4")
    alone = hetsim.recommend(
        hetsim.Workload((bursts(folder, model, Slo(0.9, 1.0)),)), few, objective="devices"
    )
    assert alone.best is not None
    took_s = alone.best.service.streams[0].service.max_s
    near = hetsim.Workload((bursts(folder, model, Slo(0.9, 1.05 * took_s)),))
    missed = hetsim.recommend(near, few, objective="devices", max_devices=2)
    assert missed.best is None
    with pytest.raises((hetsim.errors.ObjectiveMissed, hetsim.Infeasible)):
        missed.require()


def test_a_price_is_asked_for_by_name(folder: Path, workload: hetsim.Workload) -> None:
    with pytest.raises(hetsim.errors.UsageError, match="rb3-gen-2 has no price"):
        hetsim.recommend(workload, "rock-5b,rb3-gen-2")
    with pytest.raises(hetsim.errors.UsageError, match="rb3-gen-2 has no depreciation"):
        hetsim.recommend(
            workload,
            "rock-5b,rb3-gen-2",
            prices={"rock-5b": "0.1/h", "rb3*": "250"},
            tariff_usd_per_kwh=0.2,
        )
    price = "{usd: 100, years: 4, of: 2024-06, source: x}"
    bought = f"kinds:\n  rock-5b: {{platform: rock-5b, price: {price}}}"
    (folder / "bought.yaml").write_text(bought)
    with pytest.raises(
        hetsim.errors.UsageError, match="no electricity tariff is given for rock-5b"
    ):
        hetsim.recommend(workload, folder / "bought.yaml")
    with pytest.raises(hetsim.errors.UsageError, match="price of 'rok'"):
        hetsim.recommend(workload, "rock-5b", prices={"rok": "100/4y"})


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("kinds: {}", 1, "'kinds' must have 1 or more"),
        ("kinds:\n  a: {platform: rok-5b}", 2, "no platform 'rok-5b'"),
        ("kinds:\n  a: {device: nvidia-t4}", 2, "without a link"),
        ("kinds:\n  a: {device: nvidia-t4, link: pcie3-x16}", 1, "there is no host"),
        ("kinds:\n  a: {device: nvidia-t4, link: pci}\nhosts:\n  h: {platform: laptop, slots: 1}",
         2, "no link 'pci'"),
        ("kinds:\n  a: {platform: rock-5b, most: 0}", 2, "must be 1 or more"),
        ("kinds:\n  a: {platform: rock-5b, prise: {usd: 3}}", 2, "unknown key 'prise'"),
        ("kinds:\n  a: {platform: rock-5b, price: {usd: 3, of: 2024}}", 2, "source"),
        ("kinds:\n  a: {platform: rock-5b}\nhosts:\n  a: {platform: laptop, slots: 1}",
         1, "a kind and a host called 'a'"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_catalog_has_its_line(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_text(text + "\n")
    with pytest.raises(hetsim.errors.PlatformError) as caught:
        hetsim.load_catalog(file)
    assert f"{file}:{line}" in str(caught.value)
    assert says in str(caught.value)


def test_requests_reach_hardware_by_name_over_the_network(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("host: cpu\ndevices: {cpu: raspberry-pi-4-cpu}\nlinks: []\n")
    names = ("rock-5b", "server-t4", "nvidia-t4")
    links = [dict(one.link) for one in hetsim.load_catalog(",".join((*names, str(mine)))).kinds]
    assert links == [{"link": name} for name in ("eth1", "eth10", "eth10", "eth1")]
    bought = {
        one.name: one.link for one in priced_catalog(("rock-5b", "aws-g4dn.xlarge")).catalog.kinds
    }
    assert [dict(one) for one in bought.values()] == links[:2]


def test_the_schema_takes_what_the_loader_takes(tmp_path: Path) -> None:
    schema = catalog_schema()
    valid = jsonschema.Draft202012Validator(schema)
    assert valid.is_valid(yaml.safe_load(CATALOG))
    own = {"latency_us": 5.0, "bandwidth_gbytes_s": 1.0}
    given = {"kinds": {"a": {"platform": "rock-5b", "link": own}}}
    assert valid.is_valid(given)
    (tmp_path / "catalog.yaml").write_text(yaml.safe_dump(given))
    assert hetsim.load_catalog(tmp_path / "catalog.yaml").kinds[0].link == own
    for wrong in ({}, {"kinds": {}}, {"kinds": {"a": {"platform": "rock-5b", "most": 0}}}):
        assert not valid.is_valid(wrong)


WORDS = "recommend --workload {workload} --catalog {catalog} --max-devices 1 --objective devices"
NODE = "kinds:\n  node: {platform: intel-core-i9-13900k, link: eth1}\n"


@pytest.mark.parametrize(
    ("slo", "rate", "streams", "code", "says"),
    [
        ("p50=20ms", "constant: {rate_per_s: 50}", 1, 0, ""),
        ("p50=1us", "constant: {rate_per_s: 50}", 1, 4, "no platform of the catalog meets"),
        # Of two that come at once the second waits for links, which bounds leave out.
        ("p99=NEAR", "constant: {rate_per_s: 50}", 2, 5, "the closest is"),
        ("p99=NEAR", "poisson: {rate_per_s: 50}", 1, 6, "may meet every objective"),
    ],
)
def test_how_a_search_ends(
    tmp_path: Path, slo: str, rate: str, streams: int, code: int, says: str
) -> None:
    model = model_at(tmp_path, 4)
    (tmp_path / "catalog.yaml").write_text(NODE)
    stream = hetsim.Stream("all", model, Constant(1.0), slos=(Slo(0.5, 1.0),))
    alone = hetsim.recommend(
        hetsim.Workload((stream,), requests=1), tmp_path / "catalog.yaml", objective="devices"
    ).require()
    near = f"{1.1e3 * alone.service.streams[0].service.max_s}ms"
    each = f"{{model: {Path(model).name}, arrivals: {{{rate}}}, slos: [{slo}]}}"
    (tmp_path / "workload.yaml").write_text(
        "requests: 40\nstreams:\n"
        + "".join(f"  s{k}: {each.replace('NEAR', near)}\n" for k in range(streams))
    )
    words = WORDS.format(workload=tmp_path / "workload.yaml", catalog=tmp_path / "catalog.yaml")
    more = f" --requests 100 --json --certificate {tmp_path / 'why.json'} --out {tmp_path / 'o'}"
    done = call(*(words + more).split())
    assert done.exit_code == code, done.stderr
    assert says in done.stderr
    record = json.loads(done.stdout)
    assert record == json.loads((tmp_path / "o" / "result.json").read_text())
    assert (record["answer"] is None) == (code != 0)
    assert (tmp_path / "o" / "platform.yaml").exists() == (code == 0)
    held = verify(tmp_path / "why.json")
    assert (held.undecided > 0) == (code == 6)
    table = call(*(words + " --requests 100").split())
    assert table.exit_code == code
    assert "platform" in table.stdout


def test_what_is_recommended_without_any_device_survives(tmp_path: Path) -> None:
    model = model_at(tmp_path, 4)
    (tmp_path / "catalog.yaml").write_text(NODE)
    each = f"{{model: {Path(model).name}, arrivals: {{constant: {{rate_per_s: 50}}}}"
    (tmp_path / "workload.yaml").write_text(
        f"requests: 40\nstreams: {{all: {each}, slos: [p50=20ms]}}}}\n"
    )
    words = WORDS.format(workload=tmp_path / "workload.yaml", catalog=tmp_path / "catalog.yaml")
    words = words.replace("--max-devices 1", "--max-devices 3 --survive 1")
    why = tmp_path / "why.json"
    done = ok(*f"{words} --certificate {why} --out {tmp_path / 'o'}".split())
    assert "worst case without 1 of node.0-1" in " ".join(done.stdout.split())
    record = json.loads((tmp_path / "o" / "result.json").read_text())
    assert record["answer"]["counts"] == {"node": 2}
    assert record["answer"]["survived"]["answer"] == "meets"
    assert verify(why).answer == "2 node (2 devices)"
    once = call(*f"{words.replace('3 --survive', '2 --survive')}0".split())
    assert once.exit_code == 2
    few = call(*words.replace("3 --survive", "1 --survive").split())
    assert few.exit_code == 5
    assert "with one device lost" in " ".join(few.stdout.split())
