"""What devices of the catalog name under ``measured`` is among the published measurements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hetsim.fitting.measured import measured_folder, read_rows
from hetsim.fitting.points import Points, Series, points_of
from hetsim.hardware.files.catalog_files import catalog_folder

FILES = sorted(catalog_folder().glob("*.yaml"))


@pytest.fixture(scope="module")
def points() -> Points:
    return points_of(read_rows(measured_folder()))


def described(path: Path) -> Mapping[str, Any]:
    device: Mapping[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return device


def picked(entry: Mapping[str, Any], points: Points) -> list[Series]:
    """The series that an entry of ``measured`` names."""
    asked = {name: str(value) for name, value in entry.get("where", {}).items()}
    return [
        series
        for series in points.kin(entry["kin"])
        if series.chip == entry["chip"] and dict(series.where) == asked
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_names_one_series_or_a_kin_that_has_some(path: Path, points: Points) -> None:
    device = described(path)
    for precision, entry in device.get("measured", {}).items():
        # What has no peak could not be told from datasheets where it has not been measured.
        assert precision in device["peak_tflops"], precision
        assert points.kin(entry["kin"]), precision
        if "chip" in entry:
            (series,) = picked(entry, points)
            told = "float16" if series.precision == "float" else series.precision
            assert precision in (told, "float32" if series.precision == "float" else told)


def test_units_are_those_of_the_devices(points: Points) -> None:
    units = {"cpu": {"cpu"}, "gpu": {"gpu"}, "npu": {"npu", "tpu"}, "dsp": {"npu"}}
    for path in FILES:
        device = described(path)
        for entry in device.get("measured", {}).values():
            kin = {series.unit for series in points.kin(entry["kin"])}
            assert kin <= units[device["kind"]], path.stem
