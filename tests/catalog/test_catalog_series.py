"""What devices of the catalog name under ``measured`` is among the published measurements."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from catalog.measured import measured_folder
from catalog.points import Graphs, Points, Series, read_graphs
from hetsim.device.device import SimulatedDevice
from hetsim.graph.graph import Graph
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.variants import executing
from loaded_devices import loaded_device
from sweeps import sweep

FILES = sorted(catalog_folder().glob("*.yaml"))


@cache
def described(path: Path) -> Mapping[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    device: Mapping[str, Any] = yaml.load(path.read_text(encoding="utf-8"), loader)
    return device


@cache
def archive() -> Graphs:
    return read_graphs(measured_folder())


@cache
def graph_of(network: str) -> Graph:
    return archive().load(network).graph


def picked(entry: Mapping[str, Any], points: Points) -> list[Series]:
    """The series that an entry of ``measured`` names."""
    asked = {name: str(value) for name, value in entry.get("where", {}).items()}
    return [
        series
        for series in points.kin(entry["kin"])
        if series.chip == entry["chip"] and dict(series.where) == asked
    ]


def test_each_names_one_series_or_a_kin_that_has_some(points: Points) -> None:
    for path in FILES:
        device = described(path)
        for precision, entry in device.get("measured", {}).items():
            where = (path.stem, precision)
            # What has no peak could not be told from datasheets where it has not been measured.
            assert precision in device["peak_tflops"], where
            assert points.kin(entry["kin"]), where
            if "chip" in entry:
                (series,) = picked(entry, points)
                # What a runtime likes best of floats: halves on graphics, and on Arm processors.
                floats = {"float32", "float16"}
                known = floats if series.precision == "float" else {series.precision}
                assert precision in known, where


def test_units_are_those_of_the_devices(points: Points) -> None:
    units = {"cpu": {"cpu"}, "gpu": {"gpu"}, "npu": {"npu", "tpu"}, "dsp": {"npu"}}
    for path in FILES:
        device = described(path)
        for entry in device.get("measured", {}).values():
            kin = {series.unit for series in points.kin(entry["kin"])}
            # A DLA never ran alone: it borrows from the graphics that its runtime drives beside it.
            own = {"gpu"} if path.stem.endswith("-dla") else units[device["kind"]]
            assert kin <= own, path.stem


FAST_ALGORITHMS = ("ncnn-", "paddle-")
"""Kin whose libraries need fewer products for a 3x3 convolution than are counted."""


def test_no_measurement_is_above_a_stated_peak(points: Points) -> None:
    """Peaks of sparse weights, of two units together or of another chip would hide here."""
    networks = archive().entries
    checked = 0
    for path in FILES:
        device = described(path)
        for precision, entry in device.get("measured", {}).items():
            if "chip" not in entry or entry["kin"].startswith(FAST_ALGORITHMS):
                continue
            (series,) = picked(entry, points)
            peak = device["peak_tflops"][precision]["value"]
            for point in points.series[series]:
                work = 2e-12 * networks[point.network].macs * point.batch
                assert work / point.seconds <= peak, (path.stem, precision, point.network)
                checked += 1
    assert checked > 300


def test_enough_devices_have_been_measured(points: Points) -> None:
    measured = [
        path.stem
        for path in FILES
        if any("chip" in entry for entry in described(path).get("measured", {}).values())
    ]
    assert len(measured) >= 30


UNLIKE = (
    "google-edge-tpu",
    "intel-arc-a770m",
    "intel-core-ultra-265k-npu",
    "nvidia-l40s",
    "qualcomm-cloud-ai-100-pro",
    "qualcomm-qcs6490-npu",
    "rockchip-rk3588-npu",
    "snapdragon-8-gen-2-gpu",
)
"""Devices whose rules of support are not alike, with few networks each but the phone's two."""


FEW = [(path, 0, 9) for path in FILES if path.stem in UNLIKE]
THIRDS = [(path, third, 3) for path in FILES for third in range(3)]


@sweep(
    "path, first, step",
    quick=FEW[::2],
    full=[*FEW, *THIRDS],
    ids=[f"{path.stem}-{first}-{step}" for path, first, step in [*FEW, *THIRDS]],
)
def test_what_ran_whole_on_a_device_is_taken_whole(
    path: Path, first: int, step: int, points: Points
) -> None:
    spec = loaded_device(path.stem)
    for precision, entry in described(path).get("measured", {}).items():
        if "chip" not in entry:
            continue
        (series,) = picked(entry, points)
        asked = executing(spec, precision, path.stem) if precision == "int8" else spec
        device = SimulatedDevice("d", asked)
        for network in sorted({point.network for point in points.series[series]})[first::step]:
            reasons = device.query_model(graph_of(network)).reasons
            assert set(reasons.values()) == set(), network


MATRIX_PRODUCTS = {
    "intel-core-ultra-155h-igpu": "Intel Ultra 7 155H",
    "nvidia-a100-pcie-40g": "NVIDIA A100-PCIE-40GB",
    "nvidia-a100-sxm4-80g": "NVIDIA A100 SXM4 80GB",
    "nvidia-h100-pcie-80g": "NVIDIA H100 PCIe",
    "nvidia-h100-sxm5-80g": "NVIDIA H100 80GB HBM3",
    "nvidia-h200-sxm-141g": "NVIDIA H200",
    "nvidia-l40s": "NVIDIA L40S",
    "nvidia-rtx-2080": "NVIDIA RTX 2080 8GB",
    "nvidia-rtx-3060-ti": "NVIDIA GeForce RTX 3060 Ti",
    "nvidia-rtx-3090": "NVIDIA GeForce RTX 3090",
    "nvidia-rtx-4090": "NVIDIA RTX 4090 24GB",
    "nvidia-t4": "NVIDIA Tesla T4 16GB",
    "nvidia-v100-sxm2-16g": "NVIDIA Tesla V100-SXM2-16GB",
}
"""What the best matrix products that were measured are called, by device."""


def test_matrix_products_come_near_stated_peaks() -> None:
    """A peak of sparse weights is twice too high; cards may clock above what their makers state."""
    lines = (measured_folder() / "gemm.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for name, device in MATRIX_PRODUCTS.items():
        for precision in ("float32", "float16"):
            best = max(row["tflops"][precision] for row in rows if row["device"] == device)
            stated = loaded_device(name).flops_per_s[precision] / 1e12
            assert 0.5 * stated < best < 1.15 * stated, (name, precision)
