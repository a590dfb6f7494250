"""Which share of its time a device is up: as files say it, and as users write it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import hetsim
from hetsim.errors import PlatformError, UsageError
from hetsim.hardware.price import DeviceAvailability, parse_share
from platforms import CPU_AND_NPU


def written(folder: Path, npu: str) -> Path:
    device = f"npu: {{device: intel-core-ultra-155h-npu, overrides: {{availability: {npu}}}}}"
    path = folder / "pair.yaml"
    path.write_text(CPU_AND_NPU.replace("npu: intel-core-ultra-155h-npu", device))
    return path


@pytest.mark.parametrize(
    ("said", "share"),
    [
        ("{share: 0.995, source: a page}", Fraction(199, 200)),
        ("{mtbf_hours: 99.9, mttr_hours: 0.1, source: a page}", Fraction(999, 1000)),
    ],
)
def test_what_files_say_changes_no_plan(said: str, share: Fraction, tmp_path: Path) -> None:
    platform = hetsim.load_platform(written(tmp_path, said))
    assert platform.devices["npu"].availability == DeviceAvailability(share, "a page")
    assert platform.devices["cpu"].availability is None
    (tmp_path / "pair.yaml").write_text(CPU_AND_NPU)
    assert hetsim.load_platform(tmp_path / "pair.yaml").sha256 == platform.sha256


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("{source: x}", "either 'share'"),
        ("{share: 0.5, mtbf_hours: 3, mttr_hours: 1, source: x}", "either 'share'"),
        ("{share: 0.5, mttr_hours: 1, source: x}", "either 'share'"),
        ("{mtbf_hours: 3, source: x}", "either 'share'"),
        ("{share: 1.5, source: x}", "share"),
        ("{share: 0, source: x}", "share"),
        ("{share: 0.5}", "source"),
    ],
)
def test_what_files_may_not_say(said: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match=why) as refused:
        hetsim.load_platform(written(tmp_path, said))
    assert "pair.yaml:4" in str(refused.value)


def test_shares_are_read_exactly() -> None:
    assert parse_share("99.9%") == parse_share("0.999") == Fraction(999, 1000)
    assert parse_share("1") == 1
    for text in ("0", "1.1", "101%", "nan", "inf", "", "%", "x", "-0.5", "1/0"):
        with pytest.raises(UsageError):
            parse_share(text)
