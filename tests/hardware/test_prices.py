"""Prices of devices and platforms: as files say them, as users give them."""

from __future__ import annotations

from pathlib import Path

import pytest

import hetsim
from hetsim.errors import PlatformError, UsageError
from hetsim.hardware.catalog import platform_names
from hetsim.hardware.price import Price, parse_price
from platforms import CPU_AND_NPU

HOURS = 365.25 * 24


@pytest.mark.parametrize(
    ("text", "price", "hourly"),
    [
        ("0.53/h", Price(usd_per_hour=0.53), 0.53),
        ("1600/3y", Price(usd=1600, years=3), 1600 / 3 / HOURS),
        ("1600/2.5y", Price(usd=1600, years=2.5), 1600 / 2.5 / HOURS),
        ("1600", Price(usd=1600), None),
    ],
)
def test_what_a_user_gives(text: str, price: Price, hourly: float | None) -> None:
    assert parse_price(text) == price
    assert price.hourly_usd() == (None if hourly is None else pytest.approx(hourly))
    if not price.rented:
        assert price.hourly_usd(5) == pytest.approx(price.usd / 5 / HOURS)  # type: ignore[operator]


@pytest.mark.parametrize("text", ["", "x", "-1/h", "0/h", "1/w", "1/0y", "1..2", "1/y", "nan/h"])
def test_what_is_no_price(text: str) -> None:
    with pytest.raises(UsageError, match="is no price"):
        parse_price(text)


def written(folder: Path, *, whole: str = "", npu: str = "") -> Path:
    path = folder / "pair.yaml"
    text = CPU_AND_NPU
    if npu:
        device = f"npu: {{device: intel-core-ultra-155h-npu, overrides: {{price: {npu}}}}}"
        text = text.replace("npu: intel-core-ultra-155h-npu", device)
    path.write_text(text + (f"price: {whole}\n" if whole else ""))
    return path


def test_what_files_say_changes_no_plan(tmp_path: Path) -> None:
    plain = hetsim.load_platform(written(tmp_path))
    path = written(
        tmp_path,
        whole="{usd_per_hour: 0.5, of: 2024-06-01, source: a page}",
        npu="{usd: 70, years: 3, of: 2024, source: another}",
    )
    platform = hetsim.load_platform(path)
    assert platform.price == Price(0.5, None, None, "2024-06-01", "a page")
    assert platform.devices["npu"].price == Price(None, 70, 3, "2024", "another")
    assert platform.devices["cpu"].price is None
    assert plain.price is None
    assert platform.sha256 == plain.sha256


@pytest.mark.parametrize(
    ("price", "said"),
    [
        ("{usd: 5, usd_per_hour: 1, of: 2024, source: x}", "one of 'usd_per_hour' and 'usd'"),
        ("{of: 2024, source: x}", "one of 'usd_per_hour' and 'usd'"),
        ("{usd_per_hour: 1, years: 3, of: 2024, source: x}", "'years' are of what is bought"),
        ("{usd: 5, of: June, source: x}", "'June' is no date of a price"),
        ("{usd: 5, of: true, source: x}", "is no date of a price"),
        ("{usd: -5, of: 2024, source: x}", "usd"),
        ("{usd: 5, of: 2024}", "source"),
        ("{usd: 5, source: x}", "of"),
    ],
)
def test_what_files_may_not_say(price: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, whole=price)
    with pytest.raises(PlatformError, match=said) as refused:
        hetsim.load_platform(path)
    assert "pair.yaml:7" in str(refused.value)


def test_prices_of_the_catalog_have_a_page_and_a_date() -> None:
    found = 0
    for name in platform_names():
        platform = hetsim.load_platform(name)
        for price in (platform.price, *(spec.price for spec in platform.devices.values())):
            if price is not None:
                found += 1
                assert price.source.startswith("https://")
                assert price.of
    assert found
