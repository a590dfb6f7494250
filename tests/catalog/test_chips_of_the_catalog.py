"""What the file of chips says of a unit is what the catalog's device of it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from catalog.measured import measured_folder
from catalog.points import read_chips
from hetsim.hardware.files.catalog_files import catalog_folder

CHIPS = read_chips(measured_folder())
# Every process that collects reads all of the catalog: in C, where yaml has that.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
OTHERWISE = {
    ("nvidia-rtx-4090", "float16"): "the device has sums in float32, TensorRT has them in float16",
    ("nvidia-a100-sxm4-80g", "bandwidth"): "a series that it stands on is of the card of 40 GB",
    ("intel-core-ultra-155h-igpu", "bandwidth"): "rows are of a 165H with other memory",
    ("rockchip-rk3566-npu", "int8"): "rows are of the RK3568, too, whose clock is higher",
    ("rockchip-rk3566-npu", "bandwidth"): "rows are of the RK3568, too, whose memory is faster",
    ("rockchip-rk3568-gpu", "bandwidth"): "it stands on rows of an RK3566, whose memory is slower",
}


def both() -> Iterator[tuple[str, str, float, float]]:
    """Device, figure, what the catalog says, and what the file of chips says of its rows' chip."""
    for path in sorted(catalog_folder().glob("*.yaml")):
        device: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), LOADER)
        for entry in device.get("measured", {}).values():
            if "chip" not in entry:
                continue
            for (chip, unit), told in CHIPS.units.items():
                if chip != CHIPS.name(entry["chip"]) or unit == "cpu":
                    continue
                if (unit == "gpu") != (device["kind"] == "gpu") or device["kind"] == "cpu":
                    continue
                for dtype, peak in told["peak_tflops"].items():
                    if dtype in device["peak_tflops"]:
                        yield path.stem, dtype, device["peak_tflops"][dtype]["value"], peak
                if "bandwidth_gbytes_s" in told:
                    of_device = device["memory_bandwidth_gbytes_s"]["value"]
                    yield path.stem, "bandwidth", of_device, told["bandwidth_gbytes_s"]


FIGURES = sorted(set(both()))


@pytest.mark.parametrize(("name", "figure", "catalog", "chip"), FIGURES)
def test_catalog_and_chips_agree(name: str, figure: str, catalog: float, chip: float) -> None:
    if (name, figure) in OTHERWISE and chip != pytest.approx(catalog, rel=0.03):
        return
    assert chip == pytest.approx(catalog, rel=0.03)


def test_exceptions_are_needed() -> None:
    apart = {
        (name, figure)
        for name, figure, catalog, chip in FIGURES
        if chip != pytest.approx(catalog, rel=0.03)
    }
    assert apart == set(OTHERWISE)


def test_every_figure_of_a_chip_has_its_status_and_source() -> None:
    for (chip, unit), told in CHIPS.units.items():
        assert told["status"] in ("datasheet", "secondary", "derived", "estimate"), (chip, unit)
        assert len(told["source"]) >= 8, (chip, unit)
        if told["source"].startswith("devices/"):
            name = told["source"].removeprefix("devices/").split(".yaml")[0]
            assert (catalog_folder() / f"{name}.yaml").is_file(), (chip, unit)
