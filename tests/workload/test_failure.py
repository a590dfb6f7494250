"""Failures: as text, at given times, and at random."""

from __future__ import annotations

import math
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest

import hetsim
from hetsim.errors import HetsimError, UsageError
from hetsim.workload.failure import (
    Failing,
    Failure,
    check_failures,
    moments,
    parse_failures,
)

DEVICES = ("cpu", "gpu.0", "gpu.1", "npu")


def test_what_is_written_is_read() -> None:
    assert parse_failures("kill gpu.0 at 3ms") == (Failure("gpu.0", 0.003),)
    assert parse_failures("kill npu at 2s for 5ms,hang cpu at .5us for 1.5s") == (
        Failure("npu", 2.0, "kill", 0.005),
        Failure("cpu", 0.5e-6, "hang", 1.5),
    )


def test_a_failure_writes_itself() -> None:
    for text in ("kill gpu.0 at 3ms", "hang npu at 0.5ms for 20ms"):
        assert str(parse_failures(text)[0]) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "write 'kill DEVICE"),
        ("kill gpu", "write 'kill DEVICE"),
        ("kill gpu in 3ms", "write 'kill DEVICE"),
        ("kill gpu at 3ms until 5ms", "write 'kill DEVICE"),
        ("kil gpu at 3ms", "did you mean 'kill'"),
        ("kill gpu at 3", "'3' is not a time"),
        ("kill gpu at -3ms", "'-3ms' is not a time"),
        ("kill gpu at 3days", "write a number and h, min, s, ms, us or ns"),
        ("kill gpu at 3ms, ", "write 'kill DEVICE"),
    ],
)
def test_what_is_written_otherwise_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_failures(text)


def test_failures_are_put_in_order_and_named_in_full() -> None:
    found = check_failures([Failure("npu", 2.0), Failure("gpu", 1.0, "kill", 0.5)], DEVICES)
    assert [(f.device, f.at_s) for f in found] == [("gpu.0", 1.0), ("npu", 2.0)]
    again = [Failure("npu", 1.0, "kill", 0.5), Failure("npu", 1.5)]
    assert check_failures(again, DEVICES) == tuple(again)


@pytest.mark.parametrize(
    ("failures", "said"),
    [
        ([Failure("npus", 1.0)], "did you mean 'npu'"),
        ([Failure("npu", -1.0)], "invalid time"),
        ([Failure("npu", math.nan)], "invalid time"),
        ([Failure("npu", 1.0, "kill", -1.0)], "invalid time"),
        ([Failure("npu", 1.0, "hang")], "does not state when the hang"),
        ([Failure("npu", 1.0, "stop")], "unknown failure 'stop'"),  # type: ignore[arg-type]
        ([Failure("npu", 1.0), Failure("npu", 2.0)], "the device is already down"),
        ([Failure("gpu", 1.0, "kill", 2.0), Failure("gpu.0", 2.0)], "the device is already down"),
    ],
)
def test_failures_that_make_no_sense(failures: list[Failure], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_failures(failures, DEVICES)


def of(name: str, found: list[Failure]) -> list[Failure]:
    return [one for one in found if one.device == name]


def test_times_between_failures_and_to_repair_are_exponential() -> None:
    failing = Failing(mtbf_s={"npu": 90.0}, mttr_s={"npu": 10.0})
    found = list(islice(failing.failures(DEVICES, 5), 20_000))
    assert {one.device for one in found} == {"npu"}
    at_s = np.array([one.at_s for one in found])
    for_s = np.array([one.for_s for one in found])
    works_s = at_s - np.concatenate([[0.0], (at_s + for_s)[:-1]])
    for seconds, mean_s in ((works_s, 90.0), (for_s, 10.0)):
        assert seconds.mean() == pytest.approx(mean_s, rel=0.03)
        assert seconds.std() == pytest.approx(mean_s, rel=0.04)
        assert np.median(seconds) == pytest.approx(mean_s * np.log(2), rel=0.04)
    assert for_s.sum() / (at_s[-1] + for_s[-1]) == pytest.approx(0.1, rel=0.04)


def test_what_a_device_does_follows_from_the_seed_and_its_name_alone() -> None:
    few = list(islice(Failing(mtbf_s={"npu": 50.0}, mttr_s=5.0).failures(DEVICES, 3), 30))
    everyone = list(islice(Failing(mtbf_s=50.0, mttr_s=5.0).failures(DEVICES, 3), 300))
    assert of("npu", everyone)[:30] == few
    assert [one.at_s for one in everyone] == sorted(one.at_s for one in everyone)
    assert {one.device for one in everyone} == set(DEVICES)
    kinds = list(islice(Failing(mtbf_s={"gpu": 9.0}, mttr_s=1.0).failures(DEVICES, 3), 50))
    assert {one.device for one in kinds} == {"gpu.0", "gpu.1"}
    assert few != list(islice(Failing(mtbf_s={"npu": 50.0}, mttr_s=5.0).failures(DEVICES, 4), 30))


def test_what_finds_a_device_down_is_no_failure() -> None:
    given = (Failure("npu", 10.0, "kill", 100.0), Failure("cpu", 50.0))
    found = list(
        islice(Failing(given, mtbf_s=20.0, mttr_s=2.0, times="constant").failures(DEVICES, 0), 40)
    )
    npu = of("npu", found)
    assert npu[0] == given[0]
    # 20 to work and 2 to repair, one after another; those within 10 to 110 are left out.
    assert [one.at_s for one in npu[1:4]] == [130.0, 152.0, 174.0]
    assert [one.at_s for one in of("cpu", found)] == [20.0, 42.0, 50.0]
    for device in DEVICES:
        mine = of(device, found)
        assert all(a.back_s <= b.at_s for a, b in pairwise(mine))


def test_moments_of_failures_without_end_come_by_time() -> None:
    failing = Failing(mtbf_s=10.0, mttr_s=3.0)
    found = list(islice(moments(failing.failures(DEVICES, 1)), 300))
    assert [moment[:2] for moment in found] == sorted(moment[:2] for moment in found)
    for name in DEVICES:
        what = [moment[2] for moment in found if moment[3].device == name]
        assert what == (["stop", "known", "back"] * len(what))[: len(what)]


def test_a_file_says_which_devices_fail(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    head = "streams: {a: {model: zoo:mlp, arrivals: {poisson: {rate_per_s: 9}}}}\nrequests: 9\n"
    path.write_text(
        head + "failures:\n  inject: [kill npu at 2s for 1s, hang cpu at 3s for 1ms]\n"
        "  mtbf_s: {gpu: 1800}\n  mttr_s: 300\n"
    )
    failures = hetsim.load_workload(path).failures
    assert failures is not None
    assert [str(one) for one in failures.injected] == [
        "kill npu at 2000ms for 1000ms",
        "hang cpu at 3000ms for 1ms",
    ]
    assert (failures.mtbf_s, failures.mttr_s) == ({"gpu": 1800.0}, 300.0)
    for words, told in (
        ("{mtbf_s: 3}", "mtbf_s without mttr_s"),
        ("{mtbf_s: -3, mttr_s: 1}", "must be above 0"),
        ("{mtbf_s: {gpu: .nan}, mttr_s: 1}", "gpu"),
        ("{inject: kil gpu at 3ms}", "did you mean 'kill'"),
        ("{mtbf_s: 3, mttr_s: 1, times: expo}", "exponential"),
    ):
        path.write_text(f"{head}failures: {words}\n")
        with pytest.raises(HetsimError) as caught:
            hetsim.load_workload(path)
        assert told in str(caught.value)
        assert f"{path}:3" in str(caught.value)


@pytest.mark.parametrize(
    ("failing", "told"),
    [
        (Failing(mtbf_s={"gpx": 3.0}, mttr_s=1.0), "no device 'gpx'"),
        (Failing(mtbf_s={"npu": 3.0}, mttr_s={"cpu": 1.0}), "'npu' has no repair time"),
        (
            Failing(mtbf_s={"npu": 3.0}, mttr_s={"npu": 1.0, "cpu": 1.0}),
            "'cpu' has no time between failures",
        ),
        (Failing((Failure("gpx", 1.0),)), "there is no device 'gpx' to fail"),
    ],
)
def test_devices_that_are_not_there(failing: Failing, told: str) -> None:
    with pytest.raises(HetsimError, match=told):
        failing.failures(DEVICES, 0)
