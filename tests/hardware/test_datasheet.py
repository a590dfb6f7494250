"""Datasheets: cores and covariates, and links and support that were measured."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catalog.measured import measured_folder
from catalog.points import Graphs, read_graphs
from hetsim.core.units import GIGA
from hetsim.hardware.catalog import link_names, load_link, load_platform
from hetsim.hardware.datasheet import (
    CORES,
    COVARIATES,
    FAMILIES,
    Datasheet,
    covariates,
    peak_of,
    processor,
)
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


WHOLE = [
    *((npu, bert, {}) for npu in NPUS for bert in BERTS),
    ("google-edge-tpu", "densenet121", {"npu": "int8"}),
]


@pytest.mark.sweep
@pytest.mark.parametrize(("device", "network", "execute"), WHOLE)
def test_networks_that_ran_on_a_device_are_taken_whole(
    device: str, network: str, execute: dict[str, str], graphs: Graphs
) -> None:
    """Embeddings were refused by Intel's NPUs, BatchNormalization by the Edge TPU."""
    model = graphs.load(f"{network}.onnx")
    assert Problem.of(model, load_platform(device), execute=execute).runnable.all()
