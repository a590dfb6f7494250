"""A device file of one's own that names kin: their figures at its datasheet, as a prior."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml

from hetsim.errors import PlatformError
from hetsim.hardware.catalog import load_device, load_kin, load_platform
from hetsim.hardware.files import catalog_files
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS

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
    with pytest.raises(PlatformError, match="no device family 'ncnn-cpu-flaot'") as raised:
        load_device(str(path))
    assert KIN in (raised.value.hint or "")
    path = written(tmp_path, DEVICE.replace("cortex-a72", "cortex-a27"))
    with pytest.raises(PlatformError, match="cortex-a27"):
        load_device(str(path))
