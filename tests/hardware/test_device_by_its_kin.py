"""A device file of one's own that names kin: their figures at its datasheet, as a prior."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hetsim.errors import PlatformError
from hetsim.hardware.catalog import load_device, load_kin, load_platform
from hetsim.hardware.kernel_figures import INDEX

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
    # Twice the cores compute faster; without any the peak says how fast they are.
    rate = INDEX["rate_tflops"]
    more = written(tmp_path, DEVICE.replace("[[4,", "[[8,"), "more")
    assert load_device(str(more)).kernels["float32"].values[rate] > figures.values[rate]
    fewer = written(tmp_path, DEVICE.replace("cores: [[4, 1.8, cortex-a72]]\n", ""), "fewer")
    of_peak = load_device(str(fewer)).kernels["float32"].values[rate]
    assert of_peak == pytest.approx(figures.values[rate], rel=0.5)


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
    from hetsim.hardware.kernel_figures import PARAMETERS

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
