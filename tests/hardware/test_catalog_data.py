"""The catalog: what it promises, what datasheets say, and arithmetic of its sources."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import onnx
import pytest

from hetsim.graph.graph import ITEM_BITS
from hetsim.hardware.catalog import (
    device_names,
    link_names,
    load_link,
    load_platform,
    platform_names,
)
from hetsim.hardware.files import catalog_files
from hetsim.hardware.files.checking import check_file
from hetsim.hardware.routes import build_routes
from hetsim.hardware.spec import OP_CLASSES, DeviceSpec
from loaded_devices import loaded_device

STANDARD_OPS = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
ZOO_DTYPES = {"float32", "int64"}
INT8_ONLY = {"google-edge-tpu", "hailo-8", "hailo-8l", "hailo-10h", "qualcomm-qcs6490-npu"}
TENSOR_CORES = {
    (4.0, 2.0): "a2 a10 l4 l40s rtx-a3000-laptop",
    (16.0, 2.0): "a30 a100-pcie-40g a100-pcie-80g a100-sxm4-80g",
    (14.8, 2.0): "gh200-96g h100-pcie-80g h100-sxm5-80g h200-sxm-141g",
    (8.0, 2.0): "quadro-rtx-8000 t4 jetson-agx-orin-64g-gpu jetson-orin-nx-16g-gpu "
    "jetson-orin-nano-8g-gpu jetson-agx-xavier-gpu jetson-xavier-nx-gpu",
    (4.0, 4.0): "rtx-2080",
    (2.0, 4.0): "rtx-3060-ti rtx-3090 rtx-4090",
    (8.0, 0.5): "v100-sxm2-16g",
}
"""By float16 over float32 of the vector units, which 2:4 sparsity leaves alone, and 8-bit over it.

GeForce cards sum float16 in float32 at half their rate, Volta has no units of its own for 8 bits.
"""


@cache
def devices() -> dict[str, DeviceSpec]:
    return {name: loaded_device(name) for name in device_names()}


def test_platforms_are_those_that_are_promised() -> None:
    devices = {name: tuple(load_platform(name).devices) for name in platform_names()}
    members = {
        ("cpu",): "raspberry-pi-4",
        ("cpu", "gpu"): "desktop desktop-rtx-3060-ti desktop-rtx-3090 khadas-vim3 khadas-vim4 "
        "laptop-i7-1185g7 laptop-i7-1360p odroid-n2-plus server-a100 server-h100 server-h200 "
        "server-l4 server-l40s server-t4 snapdragon-888-phone workstation",
        ("cpu", "gpu", "npu"): "iq-9075 laptop rb3-gen-2 snapdragon-8-elite-phone "
        "snapdragon-8-gen-2-phone snapdragon-laptop snapdragon-phone",
        ("cpu", "npu"): "pi-5-hailo-10h pi-5-hailo-8 pi-5-hailo-8l",
        ("cpu", "npu", "gpu"): "odroid-m1 orange-pi-3b rock-4d rock-5b",
        ("gpu", "dla"): "jetson-agx-xavier jetson-xavier-nx",
    }
    for each, names in members.items():
        assert {name for name in devices if devices[name] == each} >= {*names.split()}, each
    assert devices["two-hosts"] == ("cpu.0", "gpu.0", "cpu.1", "gpu.1")
    assert devices["dual-gpu"] == ("cpu", "gpu.0", "gpu.1")
    assert devices["gpu-server-8"] == ("cpu", *(f"gpu.{i}" for i in range(8)))
    assert devices["server-a100-4"] == ("cpu", *(f"gpu.{i}" for i in range(4)))
    assert devices["edge-tpu"] == ("cpu", "tpu")
    assert devices["jetson-agx-orin"] == devices["jetson-orin-nx"] == ("cpu", "gpu", "dla")
    assert devices["jetson-orin-nano"] == ("cpu", "gpu")


def test_devices_and_links_are_those_that_are_promised() -> None:
    kinds = {name: loaded_device(name).kind for name in device_names()}
    assert {
        "intel-xeon-8480plus": "cpu",
        "intel-core-ultra-155h-cpu": "cpu",
        "intel-core-ultra-155h-igpu": "gpu",
        "intel-core-ultra-155h-npu": "npu",
        "nvidia-h100-sxm5-80g": "gpu",
        "nvidia-h200-sxm-141g": "gpu",
        "nvidia-a100-sxm4-80g": "gpu",
        "nvidia-l4": "gpu",
        "nvidia-t4": "gpu",
        "nvidia-jetson-agx-orin-64g-gpu": "gpu",
        "google-edge-tpu": "npu",
        "rockchip-rk3588-gpu": "gpu",
        "cambricon-mlu370-x8": "npu",
    }.items() <= kinds.items()
    assert {
        *(f"pcie{generation}-{lanes}" for generation in (3, 4, 5) for lanes in ("x4", "x16")),
        *("nvlink3", "nvlink4", "eth1", "eth10", "eth25", "eth100", "usb3-gen1"),
    } <= set(link_names())


def test_figures_are_in_si_units_and_range() -> None:
    for name, spec in devices().items():
        rates = spec.flops_per_s
        assert set(rates) <= set(ITEM_BITS), name
        assert all(1e10 <= rate <= 1e16 for rate in rates.values()), name
        assert 5e9 <= spec.bytes_per_s <= 1e13, name
        assert 2**23 <= spec.memory_bytes <= 2**40, name
        assert 0 < spec.launch_s <= 2e-5, name
        assert spec.launch_s < spec.dispatch_s <= 1e-3, name
        assert 0 < spec.idle_w < spec.busy_w <= 1000, name
        assert set(spec.efficiency) <= {"default", *OP_CLASSES}, name
        assert all(0 < part < 1 for part in spec.efficiency.values()), name
        assert 0 < spec.memory_efficiency < 1, name
        narrower = [rates[t] for t in ("float64", "float32", "float16") if t in rates]
        assert narrower == sorted(narrower), name


def test_ops_that_support_and_fusions_name_exist_longest_fusions_first() -> None:
    for name, spec in devices().items():
        named = set(spec.support.ops or ()) | spec.support.except_ops
        named |= {op for chain in spec.fusions for step in chain for op in step}
        assert {op for op in named if ":" not in op} <= STANDARD_OPS, name
        assert len(set(spec.fusions)) == len(spec.fusions), name
        lengths = [len(chain) for chain in spec.fusions]
        assert lengths == sorted(lengths, reverse=True), name
        if spec.support.ops is not None:
            # An op that no step of a chain could accept would make the chain dead.
            for chain in spec.fusions:
                assert all(set(step) & spec.support.ops for step in chain), (name, chain)


def test_float32_models_are_taken_and_have_a_peak() -> None:
    for name, spec in devices().items():
        if name in INT8_ONLY:
            assert set(spec.flops_per_s) == {"int8"}, name
            continue
        assert spec.support.dtypes is None or spec.support.dtypes >= ZOO_DTYPES, name
        assert spec.execution_dtype.get("float32", "float32") in spec.flops_per_s, name


@pytest.mark.parametrize(
    ("name", "dtype", "tflops"),
    [
        ("nvidia-h100-sxm5-80g", "float16", 989.4),
        ("nvidia-h200-sxm-141g", "bfloat16", 989.4),
        ("nvidia-a100-sxm4-80g", "float16", 312),
        ("nvidia-a100-sxm4-80g", "int8", 624),
        ("nvidia-l4", "float16", 121),
    ],
)
def test_peaks_are_dense(name: str, dtype: str, tflops: float) -> None:
    # Tables often quote twice these, which hold for 2:4 sparse weights alone.
    assert loaded_device(name).flops_per_s[dtype] == pytest.approx(tflops * 1e12)


def test_peaks_of_tensor_cores_are_dense_by_their_ratios() -> None:
    cores = {
        f"nvidia-{name}": ratios for ratios, names in TENSOR_CORES.items() for name in names.split()
    }
    for name, (half, eighth) in cores.items():
        rates = loaded_device(name).flops_per_s
        # Where one type's figure is for sparse weights and another's is not, these are 2 times off.
        assert rates["float16"] / rates["float32"] == pytest.approx(half, rel=0.02), name
        for eight_bit in {"int8", "float8e4m3fn"} & set(rates):
            assert rates[eight_bit] / rates["float16"] == pytest.approx(eighth, rel=0.01), name
        assert rates.get("bfloat16", rates["float16"]) == rates["float16"], name
    cards = {name for name in device_names() if name.startswith("nvidia-")}
    assert {name for name in cards if loaded_device(name).kind == "gpu"} == set(cores)


def test_only_the_vendors_own_documents_count_as_datasheets() -> None:
    vendors = {
        "google-edge-tpu": "https://coral.ai/",
        "qualcomm-cloud-ai-100-pro": "https://quic.github.io/",
    }
    for name in device_names():
        for figure, (status, source) in loaded_device(name).provenance.items():
            if status == "datasheet":
                assert "datasheet" in source.lower(), (name, figure)
                assert vendors[name] in source, (name, figure)


def test_two_gpus_meet_at_the_host() -> None:
    platform = load_platform("dual-gpu")
    _, routes = build_routes(platform)
    assert platform.devices["gpu.0"] == platform.devices["gpu.1"]
    host, first, second = range(3)
    assert len(routes[first][second].resources) == 2
    assert routes[first][second].latency_s == 2 * routes[host][first].latency_s
    # Both slots carry a transfer of their own at once.
    assert not set(routes[host][first].resources) & set(routes[host][second].resources)


def test_eight_gpus_reach_each_other_without_the_host() -> None:
    platform = load_platform("gpu-server-8")
    names, routes = build_routes(platform)
    gpus = range(1, 9)
    pairs = [(a, b) for a in gpus for b in gpus if a != b]
    nvlink, pcie = load_link("nvlink4"), load_link("pcie5-x16")
    for a, b in pairs:
        assert len(routes[a][b].resources) == 1
        assert routes[a][b].latency_s == pytest.approx(nvlink.latency_us.value / 1e6)
        assert routes[a][b].bytes_per_s > 5 * routes[0][a].bytes_per_s
    # Any two pairs talk at once, as through a switch that never blocks.
    assert len({routes[a][b].resources for a, b in pairs}) == len(pairs)
    assert routes[0][1].latency_s == pytest.approx(pcie.latency_us.value / 1e6)
    assert len(names) == 2 * (8 + 28)


def test_lanes_set_the_bandwidth_of_pci_express() -> None:
    for generation in (3, 4, 5):
        narrow, wide = (load_link(f"pcie{generation}-{lanes}") for lanes in ("x4", "x16"))
        ratio = wide.bandwidth_gbytes_s.value / narrow.bandwidth_gbytes_s.value
        assert ratio == pytest.approx(4, rel=0.01)
        per_lane = 2**generation * 128 / 130 / 8
        assert narrow.bandwidth_gbytes_s.value == pytest.approx(4 * per_lane, rel=0.01)


@pytest.mark.parametrize(
    ("name", "cores", "int8"),
    [
        ("rockchip-rk3588-npu", 3, 6e12),
        ("rockchip-rk3576-npu", 2, 6e12),
        ("nvidia-jetson-agx-orin-64g-dla", 2, 105e12 / 2),
        ("nvidia-jetson-orin-nx-16g-dla", 2, 40e12 / 2),
    ],
)
def test_cores_of_a_unit_are_streams_of_their_own_peak(name: str, cores: int, int8: float) -> None:
    unit = loaded_device(name)
    assert unit.streams == cores
    assert cores * unit.flops_per_s["int8"] == pytest.approx(int8, rel=0.05)


def test_devices_of_one_chip_share_one_bus() -> None:
    qualcomm = ("iq-9075", "rb3-gen-2", "snapdragon-laptop", "snapdragon-phone")
    jetson = ("jetson-agx-orin", "jetson-orin-nx", "jetson-orin-nano")
    for name in ("laptop", "rock-5b", *qualcomm, *jetson):
        assert {link.bus for link in load_platform(name).links} == {"memory"}


def test_links_join_two_devices_of_a_platform(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    for name in link_names():
        text = "host: a\ndevices: {a: nvidia-l4, b: nvidia-l4}\n"
        text += f"links: [{{between: [a, b], link: {name}}}]\n"
        path.write_text(text, encoding="utf-8")
        (link,) = load_platform(path).links
        assert 0 < link.latency_s <= 1e-3, name
        assert 1e8 < link.bytes_per_s < 1e12, name


def test_catalog_in_an_installed_package_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = catalog_files.catalog_folder()
    assert (beside / "platforms" / "laptop.yaml").is_file()
    monkeypatch.setattr(catalog_files, "_INSTALLED", tmp_path)
    assert catalog_files.catalog_folder() == tmp_path
    assert device_names() == ()


def test_every_file_opens_with_a_comment_is_valid_and_what_its_folder_says() -> None:
    sorts = {"links": "link", "platforms": "platform"} | {n: n for n in ("fitted", "kin", "prices")}
    for path in sorted(catalog_files.catalog_folder().rglob("*.yaml")):
        assert path.read_text(encoding="utf-8").startswith("# "), path
        checked = check_file(str(path))
        assert checked.errors == (), path
        assert checked.sort == sorts.get(path.parent.name, "device"), path
        assert checked.name == path.stem, path
        assert checked.found is not None, path


CLOCK = {"GHz": 1e9, "MHz": 1e6}
PARTS = {"half of": 0.5, "a quarter of": 0.25}
TYPES = "float32|float16|int8"
OTHER_TYPE = re.compile(rf"(half of|a quarter of|[\d.]+ x)(?: dense)? ({TYPES})\b")
BANDWIDTHS: tuple[tuple[re.Pattern[str], Callable[[float, float], float]], ...] = (
    # bytes a transfer and transfers a second
    (re.compile(r"(\d+) bit x (\d+) MT/s"), lambda bits, rate: bits / 8 * rate * 1e6),
    (re.compile(r"(\d+) channels of DDR\d-(\d+)"), lambda count, rate: count * 8 * rate * 1e6),
    (re.compile(r"LPDDR\dX?-(\d+), (\d+) bit"), lambda rate, bits: bits / 8 * rate * 1e6),
    (
        re.compile(r"LPDDR\dX? of ([\d.]+) MHz,? *,? (\d+) bit"),
        lambda mhz, bits: bits / 4 * mhz * 1e6,
    ),
)


def told(source: str) -> str:
    """A source without its remarks: what is in brackets, and what follows a semicolon or colon."""
    while "(" in source:
        shorter = re.sub(r"\s*\([^()]*\)", "", source)
        if shorter == source:
            break
        source = shorter
    return re.split(r"[;:]", source)[0].strip()


def product(term: str) -> float | None:
    """The product of factors like ``4 cores x 16 FLOP/cycle x 2.4 GHz``; None where it is none."""
    total, clocks = 1.0, 0
    for factor in term.split(" x "):
        number = re.match(r"([\d.]+)(?: (GHz|MHz))?(?=$|[ ,])", factor)
        if number is None:
            return None
        total *= float(number[1]) * CLOCK.get(number[2], 1.0)
        clocks += number[2] is not None
    return total if clocks == 1 and " x " in term else None


def peak(source: str) -> float | None:
    """What units, operations a cycle and clocks of a source make, in operations a second."""
    terms = [product(term) for term in told(source).split(" + ")]
    return None if None in terms else math.fsum(term for term in terms if term is not None)


def bandwidth(source: str) -> float | None:
    """What widths and rates of a source make, in bytes a second."""
    part = 0.5 if source.startswith("half of") else 1.0
    for pattern, made in BANDWIDTHS:
        if found := pattern.search(told(source)):
            return part * made(float(found[1]), float(found[2]))
    return None


def test_figures_are_those_that_their_sources_multiply() -> None:
    """Peaks are units x operations x clock, or multiples of others; bandwidths width x rate."""
    peaks = multiples = bandwidths = 0
    for name, spec in devices().items():
        rates = spec.flops_per_s
        for dtype, rate in rates.items():
            source = spec.provenance[f"flops_per_s.{dtype}"][1]
            if (found := peak(source)) is not None:
                assert rate == pytest.approx(found, rel=0.012), (name, dtype)
                peaks += 1
            if (read := OTHER_TYPE.match(source)) is not None:
                times = PARTS.get(read[1]) or float(read[1][:-2])
                assert rate == pytest.approx(times * rates[read[2]], rel=0.012), (name, dtype)
                multiples += 1
        if (found := bandwidth(spec.provenance["bytes_per_s"][1])) is not None:
            assert spec.bytes_per_s == pytest.approx(found, rel=0.012), name
            bandwidths += 1
    assert peaks >= 50
    assert multiples >= 115
    assert bandwidths >= 45


@pytest.mark.parametrize(
    ("source", "rate"),
    [
        ("4 cores x 16 FLOP/cycle (two 128-bit FMA) x 2.4 GHz (a page)", 153.6e9),
        (
            "8 cores x 32 FLOP/cycle x 5.5 GHz + 16 E-cores x 16 x 4.3 GHz; clocks from memory",
            2.5088e12,
        ),
        ("12 units x 8 FLOP a cycle (4 lanes (of two)) x 960 MHz", 92.16e9),
        ("2 x float32", None),
        ("half of 170 with sparsity", None),
    ],
)
def test_arithmetic_is_read_off_a_source(source: str, rate: float | None) -> None:
    assert peak(source) == (None if rate is None else pytest.approx(rate))
