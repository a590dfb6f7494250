"""A supposed platform is the one that was read but for what is said, and says what that is."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from hetsim.errors import UsageError
from hetsim.hardware.catalog import device_names, load_device
from hetsim.hardware.files.device_schema import DeviceModel
from hetsim.hardware.spec import Platform, Supposed
from hetsim.hardware.what_if import OF_DEVICE, Amount, changed_device, idle_changes, what_if
from sweeps import sweep

LAPTOP = hetsim.load_platform("laptop")
SERVER = hetsim.load_platform("gpu-server-8")


def as_read(platform: Platform) -> Platform:
    return replace(platform, supposed=None)


def test_nothing_supposed_is_the_platform_itself() -> None:
    assert what_if(LAPTOP) == LAPTOP
    assert LAPTOP.supposed is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu.memory =4GiB", lambda p: p.devices["gpu"].memory_bytes == 4 * 2**30),
        ("gpu.memory_gib =4", lambda p: p.devices["gpu"].memory_bytes == 4 * 2**30),
        ("gpu.memory =64GB", lambda p: p.devices["gpu"].memory_bytes == 64 * 10**9),
        ("npu.launch =5us", lambda p: p.devices["npu"].launch_s == 5e-6),
        ("npu.launch_us = 5", lambda p: p.devices["npu"].launch_s == 5e-6),
        ("npu.streams =4", lambda p: p.devices["npu"].streams == 4),
        ("device npu.streams +3", lambda p: p.devices["npu"].streams == 4),
        ("npu.efficiency.conv =0.5", lambda p: p.devices["npu"].efficiency["conv"] == 0.5),
        ("platform.power =30W", lambda p: p.power_w == 30.0),
        ("platform.memories =50GB/s", lambda p: p.memories[0].bytes_per_s == 50e9),
        ("link cpu-gpu.latency =7us", lambda p: p.links[0].latency_s == 7e-6),
        ("cpu-gpu.bandwidth =8Gbit/s", lambda p: p.links[0].bytes_per_s == 1e9),
    ],
)
def test_a_figure_is_what_is_said(text: str, found: object) -> None:
    made = what_if(LAPTOP, text)
    assert callable(found)
    assert found(made), text
    assert made.sha256 == LAPTOP.sha256
    assert made.supposed is not None
    assert made.supposed.changes == (text,)


@pytest.mark.parametrize("name", [figure.short for figure in OF_DEVICE if not figure.whole])
def test_a_factor_and_its_inverse_are_none(name: str) -> None:
    """For every figure that is no count: times 2, then half, to the bit where 2 is exact."""
    figure = next(figure for figure in OF_DEVICE if figure.short == name)
    text = f"npu.{name}"
    halved = what_if(LAPTOP, f"{text} /2")
    before = getattr(LAPTOP.devices["npu"], figure.field)
    after = getattr(halved.devices["npu"], figure.field)
    pairs = zip(before.values(), after.values(), strict=True) if figure.table else [(before, after)]
    assert all(now == was / 2 for was, now in pairs)
    assert as_read(what_if(halved, f"{text} x2")).devices == LAPTOP.devices


@given(st.floats(1.5, 100.0), st.sampled_from(["peak", "bandwidth", "launch", "speed"]))
def test_percentages_are_factors(percent: float, name: str) -> None:
    more = what_if(LAPTOP, f"npu.{name} +{percent!r}%")
    times = what_if(LAPTOP, f"npu.{name} x{1 + percent / 100!r}")
    assert as_read(more) == as_read(times)


def test_every_figure_of_a_device_file_can_be_changed() -> None:
    """Keys are those of the files: whatever of them is one number, or a table of such."""
    numbers = {"peak_tflops", "memory_bandwidth_gbytes_s", "memory_gib", "launch_us", "dispatch_us",
               "streams", "idle_w", "busy_w", "efficiency", "memory_efficiency"}  # fmt: skip
    assert {figure.key for figure in OF_DEVICE} == numbers
    assert numbers <= set(DeviceModel.model_fields)


@sweep("name", quick=device_names()[::9], full=device_names())
def test_kernels_follow_the_datasheet(name: str) -> None:
    """All that times are made of is as much faster; what relates to it stays."""
    spec = load_device(name)
    amount = Amount("x", 4.0, "")
    fast = changed_device(spec, "speed", amount)
    assert fast.launch_s * 4 == spec.launch_s
    assert fast.memory_bytes == spec.memory_bytes
    wide = changed_device(spec, "bandwidth", amount)
    strong = changed_device(spec, "peak", amount)
    for precision, figures in spec.kernels.items():
        for made, faster, sooner in (
            (fast, {"rate_tflops", "bandwidth_gbytes_s", "weights_gbytes_s", "io_gbytes_s"},
             {"launch_us", "dispatch_us"}),
            (wide, {"bandwidth_gbytes_s", "weights_gbytes_s"}, set()),
            (strong, {"rate_tflops"}, set()),
        ):  # fmt: skip
            for key in figures.provenance:
                was, now = figures.value(key), made.kernels[precision].value(key)
                expected = 4 * was if key in faster else was / 4 if key in sooner else was
                assert now == expected, (precision, key)


def test_speed_divides_every_time() -> None:
    """By definition of it: all that the device does takes a part of the seconds, nothing else."""
    model = hetsim.load_model("zoo:squeezenet")
    was = hetsim.Problem.of(model, LAPTOP)
    now = hetsim.Problem.of(model, what_if(LAPTOP, "gpu.speed x2"))
    gpu = was.devices.index("gpu")
    np.testing.assert_allclose(now.seconds[:, gpu], was.seconds[:, gpu] / 2, rtol=1e-12)
    assert now.dispatch_s[gpu] == was.dispatch_s[gpu] / 2
    others = [p for p in range(len(was.devices)) if p != gpu]
    assert (now.seconds[:, others] == was.seconds[:, others]).all()
    assert now.routes == was.routes
    assert [one.sd for one in now.evidence] == [one.sd for one in was.evidence]
    assert now.evidence[gpu].status == "what if"
    assert now.evidence[gpu].before == was.evidence[gpu].status
    assert now.fingerprint != was.fingerprint


def test_patterns_kinds_and_numbered_devices() -> None:
    all_of = what_if(SERVER, "gpu.memory x2")
    assert all_of.devices == what_if(SERVER, "gpu.*.memory x2").devices
    assert all_of.devices["gpu.7"].memory_bytes == 2 * SERVER.devices["gpu.7"].memory_bytes
    one = what_if(SERVER, "gpu.3.memory x2").devices
    assert [name for name in one if one[name] != SERVER.devices[name]] == ["gpu.3"]
    wide = what_if(SERVER, "link pcie*.bandwidth x2")
    doubled = {
        link.name
        for link, was in zip(wide.links, SERVER.links, strict=True)
        if link.bytes_per_s == 2 * was.bytes_per_s
    }
    assert doubled == {link.name for link in SERVER.links if link.of.startswith("pcie")}
    both = what_if(LAPTOP, "*.latency x2")
    assert both.devices == LAPTOP.devices
    assert all(made.latency_s == 2 * was.latency_s
               for made, was in zip(both.links, LAPTOP.links, strict=True))  # fmt: skip


def test_what_is_taken_away_is_gone() -> None:
    made = what_if(LAPTOP, "npu.speed x2", without=["gpu"])
    assert list(made.devices) == ["cpu", "npu"]
    assert [link.name for link in made.links] == ["cpu-npu"]
    assert [memory.devices for memory in made.memories] == [("cpu", "npu")]
    assert made.supposed == Supposed(("npu.speed x2",), ("gpu",), frozenset({"npu"}))
    assert str(made.supposed) == "npu.speed x2; without gpu"
    few = what_if(SERVER, without=["gpu.*"])
    assert list(few.devices) == ["cpu"]
    assert what_if(LAPTOP, without=["link cpu-npu"]).devices == LAPTOP.devices
    # All at once, in any order: without the link alone, a GPU could not be reached.
    for parts in (["cpu-gpu", "gpu"], ["gpu", "cpu-gpu"]):
        assert list(what_if(hetsim.load_platform("workstation"), without=parts).devices) == ["cpu"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "gpux.memory x2",
            "no device or link 'gpux' on laptop; did you mean 'gpu'? there are the",
        ),
        (
            "link gpu.latency x2",
            "no link 'gpu' on laptop; there are the links cpu-gpu",
        ),
        ("gpu.memry x2", "has no figure 'memry'; did you mean 'memory'? it has peak, bandwidth"),
        ("gpu.peak.int4 x2", "'peak' has no entry 'int4'; it has"),
        ("gpu.peak =3TFLOPS", "'peak' has several entries; name one: peak."),
        ("gpu.memory.x x2", "'memory' has no entry 'x'"),
        ("gpu.memory", "does not end in a change; write x2, /2"),
        ("memory x2", "'memory' does not name a figure"),
        ("gpu.memory =64", "the unit of 64 is missing; add a unit: B, kB"),
        ("gpu.memory =64W", "'W' is not a unit of it; its units are B"),
        ("gpu.streams =2GB", "'GB' is not a unit of it; its units are none"),
        ("gpu.streams x1.5", "streams would be 1.5; it must be a whole number"),
        ("gpu.streams =0", "streams would be 0; it must be above 0"),
        ("gpu.memory_efficiency =2", "would be 2; it must be above 0 and at most 1"),
        ("gpu.memory -100%", "leaves nothing of the figure"),
        ("gpu.memory x0", "a factor of 0"),
        ("gpu.memory x2GB", "a factor has no unit"),
        ("gpu.memory =5%", "a percentage is an increase or a decrease"),
        ("gpu.memory =1.2.3GB", "'1.2.3' is not a number"),
        ("gpu.memory x1e999", "is not a number"),
        ("gpu.launch -1s", "launch would be -"),
        ("gpu.idle =9kW", "W busy, and 9000 W idle"),
        ("gpu.power =9W", "power has an idle and a busy figure"),
        ("gpu.speed =2", "speed is not a figure of its own"),
        ("gpu.kernels.int4.launch_us x2", "has no kernel figures in int4; it has"),
        ("gpu.kernels.lunch_us x2", "has no figure 'lunch_us'; did you mean 'launch_us'?"),
        ("platform.powr x2", "has no figure 'powr'; did you mean 'power'?"),
    ],
)
def test_mistakes_are_told_in_a_line(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as caught:
        what_if(LAPTOP, text)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"what if '{text}': ")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cpu", "'cpu' is the host"),
        ("tpu", "no device or link 'tpu'"),
        ("link *", "the host 'cpu' would have no link to gpu, npu"),
    ],
)
def test_what_cannot_be_taken_away(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        what_if(LAPTOP, without=[text])


def test_a_name_of_both_sorts_has_to_say_which() -> None:
    link = replace(LAPTOP.links[0], name="npu")
    platform = replace(LAPTOP, links=(link, *LAPTOP.links[1:]))
    says = "write 'device npu.bandwidth' or 'link npu.bandwidth'"
    with pytest.raises(UsageError, match=re.escape(says)):
        what_if(platform, "npu.bandwidth x2")
    assert what_if(platform, "npu.memory x2").links == platform.links
    assert what_if(platform, "link npu.bandwidth x2").devices == platform.devices
    with pytest.raises(UsageError, match="write 'device npu' or 'link npu'"):
        what_if(platform, without=["npu"])


def test_changes_of_nothing_are_named() -> None:
    gib = LAPTOP.devices["npu"].memory_bytes / 2**30
    told = ("npu.memory x1", f"npu.memory_gib ={gib:g}", "npu.memory x2", "npu.streams =1")
    assert idle_changes(LAPTOP, told) == (told[0], told[1], told[3])
