"""Prices and availabilities: read exactly, refused by name, and no part of a plan."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import hetsim
from hetsim.errors import PlatformError, UsageError
from hetsim.hardware.catalog import device_names, offers, platform_names
from hetsim.hardware.files.checking import check_file
from hetsim.hardware.files.prices_schema import listed_offers
from hetsim.hardware.price import DeviceAvailability, Price, parse_price, parse_share
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
    with pytest.raises(UsageError, match="is not a price"):
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
        (
            "{usd_per_hour: 1, years: 3, of: 2024, source: x}",
            "'years' applies only to",
        ),
        ("{usd: 5, of: 2024}", "missing key '.*price.source'; add 'source: ...'"),
        ("{usd: 5, of: June, source: x}", "'June' is not the date of a price"),
        ("{usd: 5, of: true, source: x}", "is not the date of a price"),
        ("{usd: -5, of: 2024, source: x}", "usd"),
        ("{usd: 5, source: x}", "of"),
    ],
)
def test_what_files_may_not_say(price: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, whole=price)
    with pytest.raises(PlatformError, match=said) as refused:
        hetsim.load_platform(path)
    assert "pair.yaml:7" in str(refused.value)


def test_each_listed_price_is_of_a_name_of_the_catalog_and_plausible() -> None:
    known = {*platform_names(), *device_names()}
    listed = listed_offers()
    for one in listed:
        assert {one.name, *one.covers} <= known, one
        assert set(one.covers) <= set(device_names()), one
        assert (one.kind == "cloud") == (one.usd_per_hour is not None), one
        assert "2016-01" <= one.month <= "2026-12", one
        assert 15 <= (one.usd or 15) <= 50_000, one
        assert 0.01 <= (one.usd_per_hour or 0.01) <= 120, one
    assert len({(one.name, one.what, one.machine, one.month) for one in listed}) == len(listed)


def test_the_first_listed_offer_is_the_price_of_a_platform_and_of_a_device() -> None:
    board, *_ = offers("jetson-orin-nano")
    assert hetsim.load_platform("jetson-orin-nano").price == board.price
    assert board in offers("nvidia-jetson-orin-nano-8g-gpu")
    parts = hetsim.load_platform("edge-tpu")
    each = [offers(spec.name)[0] for spec in parts.devices.values()]
    assert [spec.price for spec in parts.devices.values()] == [one.price for one in each]
    (whole,) = offers("edge-tpu")
    assert (whole.kind, whole.usd) == ("parts", sum(one.usd or 0.0 for one in each))


def test_a_price_of_the_users_own_goes_before_the_list(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    mine = "{device: google-edge-tpu, overrides: {price: {usd: 9, of: 2026, source: mine}}}"
    path.write_text(f"host: a\ndevices: {{a: {mine}}}\n")
    assert hetsim.load_platform(path).devices["a"].price == Price(None, 9, None, "2026", "mine")
    path.write_text("host: a\ndevices: {a: google-edge-tpu}\n")
    listed = hetsim.load_platform(path).devices["a"].price
    assert listed == offers("google-edge-tpu")[0].price


OFFER = (
    "{name: rock-5b, usd: 9, what: a board, month: 2024-06, kind: launch, checked: page, "
    "source: https://x}"
)


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("usd: 9", "usd: 9, usd_per_hour: 1", "one of 'usd' and 'usd_per_hour'"),
        ("usd: 9", "usd_per_hour: 1", "'machine' is of what is rented"),
        ("2024-06", "2024-13", "cannot be a month"),
        ("kind: launch", "kind: sale", "unknown kind of price 'sale'"),
        ("https://x", "a page", "cannot be a page"),
        (", what: a board", "", "what"),
    ],
)
def test_broken_price_lists_are_refused(was: str, becomes: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(f"offers:\n  - {OFFER}\n")
    assert check_file(str(path)).sort == "prices"
    assert not check_file(str(path)).errors
    path.write_text(f"offers:\n  - {OFFER.replace(was, becomes)}\n")
    (error, *_) = check_file(str(path)).errors
    assert said in str(error)
    assert "prices.yaml:2" in str(error)


def available(folder: Path, npu: str) -> Path:
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
def test_availability_changes_no_plan(said: str, share: Fraction, tmp_path: Path) -> None:
    platform = hetsim.load_platform(available(tmp_path, said))
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
def test_what_files_may_not_say_of_availability(said: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match=why) as refused:
        hetsim.load_platform(available(tmp_path, said))
    assert "pair.yaml:4" in str(refused.value)


def test_shares_are_read_exactly() -> None:
    assert parse_share("99.9%") == parse_share("0.999") == Fraction(999, 1000)
    assert parse_share("1") == 1
    for text in ("0", "1.1", "101%", "nan", "inf", "", "%", "x", "-0.5", "1/0"):
        with pytest.raises(UsageError):
            parse_share(text)
