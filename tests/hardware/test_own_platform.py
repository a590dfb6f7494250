"""Devices and platforms that a user writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hardware.conftest import Write
from hash_seeds import QUICK, SEEDS, printed_here, printed_under
from hetsim.core.units import GIB
from hetsim.errors import PlatformError
from hetsim.hardware.catalog import load_device, load_platform, platform_names
from hetsim.hardware.files import catalog_files
from hetsim.hardware.routes import build_routes
from hetsim.hardware.variants import executed, platform_executing
from sweeps import sweep

OWN_DEVICE = """\
kind: npu
full_name: My accelerator
peak_tflops: {float16: 4, int8: 8}
memory_bandwidth_gbytes_s: 30
memory_gib: 2
launch_us: 3
dispatch_us: 100
streams: 2
idle_w: 0.1
busy_w: {value: 2, status: datasheet, source: page 3}
efficiency: {default: 0.1, conv: 0.3}
memory_efficiency: 0.5
execution_dtype: {float32: float16}
support:
  ops: [Conv, Relu, "com.microsoft:Gelu"]
  static_shapes_only: true
fusions:
  - [Conv, Relu]
  - [Conv, Add, [Relu, Clip]]
"""

OWN_PLATFORM = """\
host: cpu
devices:
  cpu: intel-core-ultra-155h-cpu
  npu: ./npu.yaml
links:
  - {between: [cpu, npu], latency_us: 20, bandwidth_gbytes_s: 1.5}
"""


def test_device_in_plain_numbers(write: Write) -> None:
    spec = load_device(write("npu.yaml", OWN_DEVICE))
    assert spec.name == "npu"
    assert spec.kind == "npu"
    assert spec.flops_per_s == {"float16": 4e12, "int8": 8e12}
    assert spec.bytes_per_s == 30e9
    assert spec.memory_bytes == 2 * GIB
    assert (spec.launch_s, spec.dispatch_s, spec.streams) == (3e-6, 1e-4, 2)
    assert (spec.idle_w, spec.busy_w) == (0.1, 2.0)
    assert spec.efficiency == {"default": 0.1, "conv": 0.3}
    assert spec.memory_efficiency == 0.5
    assert spec.execution_dtype == {"float32": "float16"}
    assert spec.support.ops == frozenset({"Conv", "Relu", "com.microsoft:Gelu"})
    assert spec.support.except_ops == frozenset()
    assert spec.support.dtypes is None
    assert spec.support.static_shapes_only
    assert spec.fusions == ((("Conv",), ("Add",), ("Relu", "Clip")), (("Conv",), ("Relu",)))


def test_table_with_one_source_gives_it_to_every_entry(write: Write) -> None:
    values = "{default: 0.2, conv: {value: 0.4, source: mine}}"
    table = f"{{value: {values}, status: derived, source: s}}"
    text = OWN_DEVICE.replace("{default: 0.1, conv: 0.3}", table, 1)
    spec = load_device(write("npu.yaml", text))
    assert spec.efficiency == {"default": 0.2, "conv": 0.4}
    assert spec.provenance["efficiency.default"] == ("derived", "s")
    assert spec.provenance["efficiency.conv"] == ("derived", "mine")


def test_platform_finds_devices_beside_its_file(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("parts/npu.yaml", OWN_DEVICE)
    path = write("box.yaml", OWN_PLATFORM.replace("./npu.yaml", "parts/npu.yaml"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    platform = load_platform(path)
    assert list(platform.devices) == ["cpu", "npu"]
    assert platform.devices["npu"].name == "npu"
    assert platform.source == str(path)
    assert load_platform("../box.yaml").sha256 == platform.sha256


def test_own_link_reaches_the_bandwidth_it_states(write: Write) -> None:
    write("npu.yaml", OWN_DEVICE)
    (link,) = load_platform(write("box.yaml", OWN_PLATFORM)).links
    assert (link.name, link.a, link.b) == ("cpu-npu", "cpu", "npu")
    assert (link.latency_s, link.bytes_per_s) == (2e-5, 1.5e9)
    assert link.duplex
    assert link.bus is None


def test_link_of_the_catalog_can_be_changed(write: Write) -> None:
    text = """\
host: a
devices: {a: amd-epyc-9654, b: nvidia-l4}
links:
  - {between: [a, b], link: pcie4-x16}
  - {between: [a, b], link: pcie4-x16, latency_us: 1, duplex: false, name: slow, bus: root}
  - {between: [a, b], link: pcie4-x16, efficiency: 0.5, name: half}
"""
    known, changed, half = load_platform(write("box.yaml", text)).links
    assert known.bytes_per_s == pytest.approx(31.5e9 * 0.82)
    assert known.latency_s == pytest.approx(11.4e-6)
    assert (changed.name, changed.bus, changed.duplex) == ("slow", "root", False)
    assert (changed.latency_s, changed.bytes_per_s) == (1e-6, known.bytes_per_s)
    assert half.bytes_per_s == 31.5e9 * 0.5


def test_link_file_of_ones_own(write: Write) -> None:
    write("cable.yaml", "full_name: C\nlatency_us: 2\nbandwidth_gbytes_s: 3\nefficiency: 0.5\n")
    text = "host: a\ndevices: {a: nvidia-l4, b: nvidia-l4}\n"
    text += "links: [{between: [a, b], link: ./cable.yaml}]\n"
    (link,) = load_platform(write("box.yaml", text)).links
    assert (link.latency_s, link.bytes_per_s, link.duplex) == (2e-6, 1.5e9, True)


def test_device_described_inside_the_platform(write: Write) -> None:
    inline = "npu:\n    device:\n" + "".join(f"      {line}\n" for line in OWN_DEVICE.splitlines())
    platform = load_platform(write("box.yaml", OWN_PLATFORM.replace("npu: ./npu.yaml\n", inline)))
    alone = load_device(write("npu.yaml", OWN_DEVICE))
    assert platform.devices["npu"] == alone


def test_overrides_change_entries_of_tables_and_whole_other_figures(write: Write) -> None:
    text = """\
host: gpu
devices:
  gpu:
    device: nvidia-l4
    overrides:
      memory_gib: 2
      peak_tflops: {float16: 60}
      efficiency: {value: {conv: 0.9}, status: derived, source: measured here}
      execution_dtype: {float32: float16}
      support: {ops: [Conv]}
"""
    changed = load_platform(write("box.yaml", text)).devices["gpu"]
    known = load_device("nvidia-l4")
    assert changed.name == known.name
    assert changed.memory_bytes == 2 * GIB
    assert changed.provenance["memory_bytes"] == ("estimate", "user")
    assert changed.flops_per_s == {**known.flops_per_s, "float16": 60e12}
    assert changed.efficiency == {**known.efficiency, "conv": 0.9}
    assert changed.provenance["efficiency.conv"] == ("derived", "measured here")
    assert changed.provenance["efficiency.matmul"] == known.provenance["efficiency.matmul"]
    assert changed.execution_dtype == {"float32": "float16"}
    assert changed.support.ops == frozenset({"Conv"})
    assert changed.support.dtypes is None
    assert changed.fusions == known.fusions


def test_a_platform_says_what_a_device_executes_as_if(write: Write) -> None:
    text = """\
host: cpu
devices:
  cpu: raspberry-pi-5-cpu
  tpu: {device: google-edge-tpu, execute: int8}
links:
  - {between: [cpu, tpu], link: usb3-gen1}
"""
    own, known = load_platform(write("box.yaml", text)), load_platform("edge-tpu")
    assert executed(own) == {"tpu": "int8"}
    assert executed(known) == {}
    assert platform_executing(known, {"tpu": "int8"}).devices == own.devices
    assert own.sha256 != known.sha256


def test_one_device_needs_no_links(write: Write) -> None:
    platform = load_platform(write("one.yaml", "host: cpu\ndevices: {cpu: amd-epyc-9654}\n"))
    assert platform.links == ()
    assert build_routes(platform)[0] == ()


def test_digest_follows_every_figure_but_not_the_place(write: Write) -> None:
    write("npu.yaml", OWN_DEVICE)
    first = load_platform(write("box.yaml", OWN_PLATFORM)).sha256
    write("copy/npu.yaml", OWN_DEVICE)
    assert load_platform(write("copy/box.yaml", "# moved\n" + OWN_PLATFORM)).sha256 == first
    changes = (
        ("bandwidth_gbytes_s: 1.5", "bandwidth_gbytes_s: 1.6"),
        ("latency_us: 20", "latency_us: 20.5"),
        ("1.5}", "1.5, bus: m}"),
        ("host: cpu", "host: npu"),
        ("intel-core-ultra-155h-cpu", "amd-epyc-7763"),
        ("  npu: ./npu.yaml\n", "  npu: ./npu.yaml\n  a: ./npu.yaml\n"),
    )
    seen = {first}
    for old, new in changes:
        text = OWN_PLATFORM.replace(old, new, 1)
        if "  a:" in text:
            text += "  - {between: [cpu, a], latency_us: 1, bandwidth_gbytes_s: 1}\n"
        seen.add(load_platform(write("box.yaml", text)).sha256)
    write("npu.yaml", OWN_DEVICE.replace("Conv, Relu", "Conv, Clip", 1))
    seen.add(load_platform(write("box.yaml", OWN_PLATFORM)).sha256)
    assert len(seen) == len(changes) + 2


def test_order_of_devices_is_part_of_the_digest(write: Write) -> None:
    one = (
        "host: a\ndevices: {a: nvidia-l4, b: nvidia-l4}\nlinks: [{between: [a, b], link: eth10}]\n"
    )
    two = one.replace("{a: nvidia-l4, b: nvidia-l4}", "{b: nvidia-l4, a: nvidia-l4}")
    digests = {load_platform(write("box.yaml", text)).sha256 for text in (one, two)}
    assert len(digests) == 2


SCRIPT = """
from hetsim.hardware.catalog import load_platform, platform_names
from hetsim.hardware.routes import build_routes
for name in platform_names():
    platform = load_platform(name)
    print(platform.sha256, build_routes(platform))
"""


@pytest.mark.sweep
@sweep("seed", quick=QUICK, full=SEEDS)
def test_digest_and_routes_do_not_depend_on_the_hash_seed(seed: int) -> None:
    printed = printed_here(SCRIPT)
    assert printed_under(seed, SCRIPT) == printed
    assert len(printed.splitlines()) == len(platform_names())


@pytest.mark.parametrize(
    ("load", "given", "message"),
    [
        (load_platform, "latop", "no platform 'latop' in the catalog; did you mean 'laptop'?"),
        (load_platform, "nvidia-t5", "'nvidia-t5' in the catalog; did you mean 'nvidia-t4'?"),
        (load_device, "nvidia-l44", "did you mean 'nvidia-l4'?"),
        (load_platform, "laptop.yaml", "laptop.yaml: no such file; in the catalog, did you mean"),
        (
            load_platform,
            "",
            "no platform '' in the catalog; choose from: desktop, desktop-rtx-3060-ti",
        ),
        (load_device, "no/such.yaml", "no/such.yaml: no such file; in the catalog, choose from"),
    ],
)
def test_what_is_not_there_is_named_with_the_nearest(
    load: Callable[[str], object],
    given: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PlatformError) as caught:
        load(given)
    assert message in str(caught.value)


SOURCED_DEVICE = """\
kind: npu
full_name: A device of the catalog
peak_tflops: {value: {float16: 4}, status: datasheet, source: page 1}
memory_bandwidth_gbytes_s: {value: 30, status: datasheet, source: page 1}
memory_gib: {value: 2, status: datasheet, source: page 1}
launch_us: {value: 3, status: estimate, source: a guess}
dispatch_us: {value: 100, status: estimate, source: a guess}
streams: {value: 1, status: estimate, source: a guess}
idle_w: {value: 1, status: estimate, source: a guess}
busy_w: {value: 2, status: estimate, source: a guess}
efficiency: {value: {default: 0.1}, status: estimate, source: a guess}
memory_efficiency: {value: 0.5, status: estimate, source: a guess}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("", "", None),
        (
            "launch_us: {value: 3, status: estimate, source: a guess}",
            "launch_us: 3",
            "devices/npu.yaml:6: 'launch_us' has no status and source; write {value: NUMBER",
        ),
        (
            "memory_gib: {value: 2, status: datasheet, source: page 1}",
            "memory_gib: {value: 2, status: datasheet}",
            "devices/npu.yaml:5: 'memory_gib' has no source; write {value: NUMBER",
        ),
        (
            "efficiency: {value: {default: 0.1}, status: estimate, source: a guess}",
            "efficiency: {default: 0.1}",
            "devices/npu.yaml:11: 'efficiency.default' has no status and source",
        ),
        (
            "{value: {float16: 4}, status: datasheet, source: page 1}",
            "{value: {float16: 4}, source: page 1}",
            "devices/npu.yaml:3: 'peak_tflops.float16' has no status",
        ),
    ],
)
def test_catalog_takes_no_figure_without_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, message: str | None
) -> None:
    monkeypatch.setattr(catalog_files, "_INSTALLED", tmp_path)
    (tmp_path / "npu.yaml").write_text(SOURCED_DEVICE.replace(old, new, 1), encoding="utf-8")
    if message is None:
        assert load_device("npu").provenance["memory_bytes"] == ("datasheet", "page 1")
    else:
        with pytest.raises(PlatformError) as caught:
            load_device("npu")
        assert str(caught.value).startswith(message)


def test_a_device_is_the_platform_of_itself_alone(write: Write) -> None:
    by_name = load_platform("nvidia-t4")
    assert (by_name.name, by_name.host, by_name.links) == ("nvidia-t4", "gpu", ())
    assert dict(by_name.devices) == {"gpu": load_device("nvidia-t4")}
    path = str(write("mine.yaml", OWN_DEVICE))
    by_file = load_platform(path)
    assert (by_file.name, by_file.source, tuple(by_file.devices)) == ("mine", path, ("npu",))
    assert by_file.devices["npu"] == load_device(path)
    assert by_file.sha256 != by_name.sha256
