"""What requests cost: rent, purchase over years and electricity, and what is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

import hetsim
from deployments import alone_s, deployed, poisson
from hetsim.errors import UsageError
from hetsim.hardware.price import Price, parse_price
from hetsim.reporting.tables.service import cost_text
from hetsim.simulation.service.cost import ServicePrices, cost_of
from hetsim.simulation.service.service import Service
from hetsim.workload.workload import Slo

HOUR_S = 3600.0
KWH_J = 3.6e6


@pytest.fixture(scope="module")
def service(fixed: str, platform: hetsim.Platform) -> Service:
    took_s = alone_s(fixed, platform)
    workload = poisson(fixed, 0.5 / took_s, 400, slos=(Slo(0.5, 1.1 * took_s),))
    return hetsim.simulate(deployed(fixed), workload, platform=platform)


def given(tariff: float | None = None, lifetime: float | None = None, **of: str) -> ServicePrices:
    return ServicePrices({name: parse_price(text) for name, text in of.items()}, tariff, lifetime)


def test_rent_is_by_the_hour_and_has_its_electricity(
    service: Service, platform: hetsim.Platform
) -> None:
    cost = cost_of(service, platform, given(platform="0.5/h"))
    assert cost.usd == pytest.approx(0.5 * service.duration_s / HOUR_S)
    assert cost.electricity_usd == 0
    assert 0 < cost.on_time < 400
    assert cost.per_1000(cost.usd) == pytest.approx(1000 * cost.usd / cost.on_time)
    each = cost_of(service, platform, given(cpu="0.2/h", npu="0.3/h"))
    assert each.usd == pytest.approx(cost.usd)


def test_what_is_bought_costs_every_hour_and_its_energy(
    service: Service, platform: hetsim.Platform
) -> None:
    hours = service.duration_s / HOUR_S
    cost = cost_of(service, platform, given(tariff=0.25, cpu="400/4y", npu="0.3/h"))
    energy_j = service.devices["cpu"].energy_j
    assert cost.hardware_usd == pytest.approx((400 / (4 * 8766) + 0.3) * hours)
    assert cost.electricity_usd == pytest.approx(energy_j / KWH_J * 0.25)
    assert cost.usd == pytest.approx(cost.hardware_usd + cost.electricity_usd)
    whole = cost_of(service, platform, given(0.25, 2.0, platform="400/4y"))
    assert whole.hardware_usd == pytest.approx(400 / (2 * 8766) * hours)
    assert whole.electricity_usd == pytest.approx(service.energy_j / KWH_J * 0.25)


def test_energy_is_told_by_device(service: Service) -> None:
    each = [service.per_1000(use.energy_j) for use in service.devices.values()]
    assert None not in each
    assert sum(one or 0.0 for one in each) == pytest.approx(service.energy_per_1000_j)


def test_what_is_not_known_is_asked_for(service: Service, platform: hetsim.Platform) -> None:
    cost = cost_of(service, platform)
    assert (cost.usd, cost.unpriced) == (None, ("cpu", "npu"))
    assert "unknown for cpu, npu; give --price cpu=" in cost_text(cost)
    cost = cost_of(service, platform, given(cpu="100", npu="0.3/h"))
    assert (cost.usd, cost.hardware_usd, cost.unspread) == (None, None, ("cpu",))
    text = cost_text(cost)
    assert "give --depreciation 3y for cpu" in text
    assert "give --tariff" in text
    cost = cost_of(service, platform, given(None, 3.0, cpu="100", npu="0.3/h"))
    assert (cost.usd, cost.electricity_usd) == (None, None)
    assert cost.hardware_usd is not None
    assert "without electricity" in cost_text(cost)
    with pytest.raises(UsageError, match="a price for 'gpu'"):
        cost_of(service, platform, given(gpu="1/h"))
    with pytest.raises(UsageError, match="leave out the price of platform"):
        cost_of(service, platform, given(cpu="1/h", platform="1/h"))


def test_what_a_user_gives_goes_before_what_files_say(
    service: Service, platform: hetsim.Platform
) -> None:
    stated = replace(platform, price=Price(usd_per_hour=1.0, of="2024", source="a page"))
    assert cost_of(service, stated).usd == pytest.approx(service.duration_s / HOUR_S)
    assert "a page, 2024" in cost_text(cost_of(service, stated))
    by_device = cost_of(service, stated, given(**{"*": "0.25/h"}))
    assert [one.name for one in by_device.charges] == ["cpu", "npu"]
    assert by_device.usd == pytest.approx(0.5 * service.duration_s / HOUR_S)
