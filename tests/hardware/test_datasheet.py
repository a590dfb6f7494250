"""Datasheets, and devices and links that follow from them or were measured."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from catalog.measured import measured_folder
from catalog.points import Graphs, read_graphs
from hetsim.core.units import GIGA
from hetsim.errors import PlatformError
from hetsim.hardware.catalog import link_names, load_device, load_kin, load_link, load_platform
from hetsim.hardware.datasheet import (
    CORES,
    COVARIATES,
    FAMILIES,
    Datasheet,
    covariates,
    peak_of,
    processor,
)
from hetsim.hardware.files import catalog_files
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS
from hetsim.hardware.kin import ByDatasheet
from hetsim.problem.problem import Problem

CLUSTERS = [(4, 2.0, "cortex-a76"), (4, 1.0, "cortex-a55")]


def test_threads_take_the_fastest_cores_first():
    assert processor(CLUSTERS, "float32", 2).flops_per_s == pytest.approx(2 * 32e9)
    assert processor(CLUSTERS, "float32", 6).flops_per_s == pytest.approx(4 * 32e9 + 2 * 8e9)
    whole = processor(CLUSTERS, "float32")
    assert (whole.flops_per_s, whole.threads) == (pytest.approx(160e9), 8)
    assert processor(CLUSTERS, "float32", 99) == whole
    assert (whole.in_order, processor(CLUSTERS, "int8", 4).in_order) == (0.5, 0.0)


def test_a_core_computes_in_what_it_is_asked_for():
    rates = {
        precision: processor([(1, 1.0, "cortex-a76")], precision).flops_per_s
        for precision in ("float32", "float", "float16", "int8")
    }
    assert rates == {"float32": 16e9, "float": 32e9, "float16": 32e9, "int8": 64e9}
    # Without halves, in whole ones.
    assert processor([(1, 1.0, "cortex-a72")], "float").flops_per_s == pytest.approx(8e9)
    assert all(core.family in FAMILIES for core in CORES.values())


def test_a_peak_that_is_not_told_follows_from_one_that_is():
    assert peak_of({"int8": 8e12}, "int8") == 8e12
    assert peak_of({"int8": 8e12}, "float16") == 4e12
    assert peak_of({"float32": 1e12}, "float") == 1e12
    assert peak_of({}, "int8") is None


def test_covariates_are_logs_and_what_nobody_says_is_not_a_number():
    found = dict(zip(COVARIATES, covariates(Datasheet(1e12, None, 16, 0.25, "arm")), strict=True))
    assert found["peak"] == pytest.approx(math.log(1e12))
    assert math.isnan(found["bandwidth"])
    assert found["threads"] == pytest.approx(math.log(16))
    assert found["beyond_8_threads"] == pytest.approx(math.log(2))
    assert (found["in_order"], found["arm"], found["x86"]) == (0.25, 1.0, 0.0)


def test_figures_at_a_datasheet_are_the_mean_moved_by_slopes():
    told = ByDatasheet(
        precision="float",
        middle={"peak": math.log(1e12), "bandwidth": math.log(5e10)},
        slopes={
            "peak": {"rate_tflops": 1.0, "launch_us": -0.5},
            "bandwidth": {"bandwidth_gbytes_s": 1.0},
            "mali": {"launch_us": math.log(3)},
        },
        errors=(),
    )
    mean = tuple(float(2 + at) for at in range(len(PARAMETERS)))
    # Four times the usual peak; a bandwidth that nobody says is as usual.
    found = told.values(mean, Datasheet(4e12, None, family="mali"))
    ratio = np.array(found) / mean
    assert ratio[INDEX["rate_tflops"]] == pytest.approx(4)
    assert ratio[INDEX["launch_us"]] == pytest.approx(3 / 2)
    assert np.delete(ratio, [INDEX["rate_tflops"], INDEX["launch_us"]]) == pytest.approx(1)
    figures = told.figures("a-kin", "a runtime", "kin: 3 chips", "float16", found)
    assert figures.standing == "prior"
    assert {status for status, _ in figures.provenance.values()} == {"prior"}


KIN = "ncnn-cpu-float"
DEVICE = f"""\
kind: cpu
full_name: My board
peak_tflops: {{float32: 0.0576}}
memory_bandwidth_gbytes_s: 8
memory_gib: 2
launch_us: 3
dispatch_us: 10
streams: 1
idle_w: 0.1
busy_w: 2
efficiency: {{default: 0.1}}
memory_efficiency: 0.5
cores: [[4, 1.8, cortex-a72]]
measured:
  float32: {{kin: {KIN}}}
"""


BY_DATASHEET = """\
by_datasheet:
  precision: float
  middle: {peak: 25.0, bandwidth: 24.0, threads: 1.0, in_order: 0.3}
  slopes:
    peak: {rate_tflops: 1.0, launch_us: -0.5}
    bandwidth: {bandwidth_gbytes_s: 1.0}
    adreno: {launch_us: 0.5}
    nvidia: {launch_us: -0.5}
  errors:
    - {batch: "1", networks: 20, rows: 300, median: 0.3, p90: 0.8, sd: 0.5, common: 0.2}
"""


@pytest.fixture(autouse=True)
def kins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalog of two kin, which say what is written here of datasheets."""
    folder = tmp_path / "catalog" / "fitted" / "kin"
    folder.mkdir(parents=True)
    for kin in (KIN, "ncnn-gpu-float"):
        text = (catalog_folder() / "fitted" / "kin" / f"{kin}.yaml").read_text(encoding="utf-8")
        likeness = text.split("\nby_datasheet:")[0].rstrip()
        (folder / f"{kin}.yaml").write_text(f"{likeness}\n{BY_DATASHEET}", encoding="utf-8")
    monkeypatch.setattr(catalog_files, "catalog_folder", lambda: tmp_path / "catalog")
    return folder


def written(folder: Path, text: str = DEVICE, name: str = "my-board") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_it_has_what_its_kin_say_of_its_datasheet(tmp_path: Path) -> None:
    figures = load_device(str(written(tmp_path))).kernels["float32"]
    assert figures.standing == "prior"
    assert {status for status, _ in figures.provenance.values()} == {"prior"}
    assert (figures.kin, len(figures.likeness)) == (KIN, 64)
    kin = load_kin(KIN)
    assert kin.by_datasheet is not None
    assert figures.errors == kin.by_datasheet.errors
    assert {error.batch for error in figures.errors} == {"1"}
    rate, near = INDEX["rate_tflops"], INDEX["bandwidth_gbytes_s"]
    # Four cores x 8 FLOP a cycle x 1.8 GHz; a processor's memory is as usual.
    expected = kin.mean[rate] * 57.6e9 / math.exp(25.0)
    assert figures.values[rate] == pytest.approx(expected)
    assert figures.values[near] == pytest.approx(kin.mean[near])
    more = written(tmp_path, DEVICE.replace("[[4,", "[[8,"), "more")
    assert load_device(str(more)).kernels["float32"].values[rate] == pytest.approx(2 * expected)
    # Without them the stated peak says how fast it is.
    stated = written(tmp_path, DEVICE.replace("cores: [[4, 1.8, cortex-a72]]\n", ""), "stated")
    assert load_device(str(stated)).kernels["float32"].values[rate] == pytest.approx(expected)


def test_kin_that_say_nothing_of_datasheets_leave_it_its_roofline(
    tmp_path: Path, kins: Path
) -> None:
    file = kins / f"{KIN}.yaml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.split("by_datasheet:")[0], encoding="utf-8")
    assert not load_device(str(written(tmp_path))).kernels


def test_graphics_of_another_make_differ_by_their_drivers(tmp_path: Path) -> None:
    text = DEVICE.replace("kind: cpu", "kind: gpu").replace(KIN, "ncnn-gpu-float")
    text = text.replace("cores: [[4, 1.8, cortex-a72]]", "family: MAKE")
    launches = {
        make: load_device(str(written(tmp_path, text.replace("MAKE", make), make)))
        .kernels["float32"]
        .values[INDEX["launch_us"]]
        for make in ("adreno", "nvidia")
    }
    assert launches["adreno"] > launches["nvidia"]


def test_so_has_a_device_within_a_platform_and_what_it_changes_counts(tmp_path: Path) -> None:
    device = yaml.safe_load(DEVICE)
    platform = {
        "devices": {
            "cpu": {"device": device},
            "fast": {
                "device": str(written(tmp_path)),
                "overrides": {"cores": [[4, 3.6, "cortex-a72"]]},
            },
        },
        "links": [{"between": ["cpu", "fast"], "latency_us": 1, "bandwidth_gbytes_s": 10}],
        "host": "cpu",
    }
    path = written(tmp_path, yaml.safe_dump(platform), "platform")
    devices = load_platform(str(path)).devices
    rates = {
        name: spec.kernels["float32"].values[INDEX["rate_tflops"]] for name, spec in devices.items()
    }
    assert rates["fast"] > rates["cpu"]


def test_figures_of_its_own_go_before_those_of_kin(tmp_path: Path) -> None:
    given = yaml.safe_load(DEVICE)
    mean = load_kin(KIN).mean
    values = {one.name: one.in_key_unit(value) for one, value in zip(PARAMETERS, mean, strict=True)}
    given["kernels"] = {
        "float32": {
            "kin": KIN, "runtime": "mine", "source": "my bench",
            "parameters": {"value": values, "status": "fitted", "source": "my bench"},
        }
    }  # fmt: skip
    figures = load_device(str(written(tmp_path, yaml.safe_dump(given)))).kernels["float32"]
    assert (figures.runtime, figures.standing) == ("mine", "fitted")


def test_kin_and_cores_that_are_not_there_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, DEVICE.replace(KIN, "ncnn-cpu-flaot"))
    with pytest.raises(PlatformError, match="no kin 'ncnn-cpu-flaot'") as raised:
        load_device(str(path))
    assert KIN in (raised.value.hint or "")
    path = written(tmp_path, DEVICE.replace("cortex-a72", "cortex-a27"))
    with pytest.raises(PlatformError, match="cortex-a27"):
        load_device(str(path))


ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data/measured/links.jsonl").read_text().splitlines()
]
NOT_THE_LINK = ("other socket", "both directions", "while device to host runs")
"""Rows of another way, or of two transfers at once: not the rate of one transfer."""


def rates(link: str) -> list[float]:
    return [
        row["gbytes_s"]
        for row in ROWS
        if row["link"] == link
        and "gbytes_s" in row
        and not any(words in row["what"] for words in NOT_THE_LINK)
    ]


def reached(link: str) -> float:
    """GB/s of a large transfer."""
    found = load_link(link)
    return found.bandwidth_gbytes_s.value * found.efficiency.value


@pytest.mark.parametrize("link", sorted({row["link"] for row in ROWS} & {*link_names()}))
def test_a_link_reaches_what_was_measured(link: str) -> None:
    measured = rates(link)
    assert measured
    assert min(measured) * 0.97 <= reached(link) <= max(measured) * 1.03
    statuses = {load_link(link).efficiency.status}
    assert statuses <= {"measured", "derived"}


def test_a_copy_takes_a_latency_and_its_bytes_over_the_rate() -> None:
    curve = {row["bytes"]: row["us"] for row in ROWS if "bytes" in row}
    # Those of one card: what the call costs is the card's driver, what a byte costs the link's.
    call_us = curve[min(curve)]
    for nbytes, took_us in curve.items():
        # 5 %: at 13.1 to 13.9 GB/s by size, against one rate for all.
        predicted_us = call_us + nbytes / (reached("pcie3-x16") * GIGA) * 1e6
        assert predicted_us == pytest.approx(took_us, rel=0.05)
    assert load_link("pcie3-x16").latency_us.value <= call_us


NPUS = ("intel-core-ultra-155h-npu", "intel-core-ultra-265k-npu")
BERTS = ("bert_base_384", "distilbert_mlm_384")


@pytest.fixture(scope="module")
def graphs() -> Graphs:
    return read_graphs(measured_folder())


@pytest.mark.parametrize(
    ("device", "network", "execute"),
    [
        *((npu, bert, {}) for npu in NPUS for bert in BERTS),
        ("google-edge-tpu", "densenet121", {"npu": "int8"}),
    ],
)
def test_networks_that_ran_on_a_device_are_taken_whole(
    device: str, network: str, execute: dict[str, str], graphs: Graphs
) -> None:
    """Embeddings were refused by Intel's NPUs, BatchNormalization by the Edge TPU."""
    model = graphs.load(f"{network}.onnx")
    assert Problem.of(model, load_platform(device), execute=execute).runnable.all()
