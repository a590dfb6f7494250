"""What requests cost, in words: figures, where they are from, and what is not known."""

from __future__ import annotations

from typing import Any

from hetsim.base.text import plain
from hetsim.reporting.words.text import percent
from hetsim.service.cost import Charge, Cost


def cost_text(cost: Cost) -> str:
    """Return what a thousand requests on time cost and where prices are from, or what to give."""
    asks = []
    if cost.unpriced:
        asks.append(
            f"no price given for {', '.join(cost.unpriced)}: give one by --price "
            f"{cost.unpriced[0]}=0.53/h (rented) or =1600/3y (bought), or of all by platform=..."
        )
    if cost.unspread:
        asks.append(f"no lifetime given for {', '.join(cost.unspread)}: give --lifetime YEARS")
    bought = any(not one.price.rented for one in cost.charges)
    if bought and cost.tariff_usd_per_kwh is None:
        asks.append("no tariff given: give --tariff USD_PER_KWH")
    if not cost.charges:
        return asks[0]
    said = []
    whole, hardware = cost.per_1000(cost.usd), cost.per_1000(cost.hardware_usd)
    if whole is not None:
        said.append(f"{whole:.3g} USD for 1000 requests on time")
        if bought:
            power = cost.per_1000(cost.electricity_usd)
            said[-1] += (
                f", {power:.3g} USD of it electricity at {cost.tariff_usd_per_kwh:g} USD a kWh"
            )
    elif hardware is not None:
        said.append(f"{hardware:.3g} USD for 1000 requests on time without electricity")
    elif not cost.on_time:
        said.append("no request was on time")
    longest_s = max(one.rented_s for one in cost.charges)
    said += [charge_text(one, longest_s) for one in cost.charges]
    return "; ".join(said + asks)


def charge_text(one: Charge, longest_s: float) -> str:
    """Return a price and where it is from; also for how much of the time, where not for all."""
    price = one.price
    if price.rented:
        text = f"{one.name}: {price.usd_per_hour:g} USD an hour"
        if one.rented_s < longest_s:
            text += f" for {percent(one.rented_s / longest_s)} of the time"
    else:
        text = f"{one.name}: {price.usd:g} USD"
        if one.hourly_usd is not None:
            text += f", {one.hourly_usd:.3g} an hour"
    where = plain(price.source)
    return f"{text} ({where}, {price.of})" if price.of else f"{text} ({where})"


def cost_record(cost: Cost) -> dict[str, Any]:
    """Return the record for JSON."""
    return {
        "usd": cost.usd,
        "hardware_usd": cost.hardware_usd,
        "electricity_usd": cost.electricity_usd,
        "tariff_usd_per_kwh": cost.tariff_usd_per_kwh,
        "usd_per_1000_on_time": cost.per_1000(cost.usd),
        "unpriced": list(cost.unpriced),
        "no_lifetime": list(cost.unspread),
        "charges": [
            {
                "name": one.name,
                "usd_per_hour": one.price.usd_per_hour,
                "usd": one.price.usd,
                "years": one.price.years,
                "hourly_usd": one.hourly_usd,
                "energy_j": one.energy_j,
                "rented_s": one.rented_s,
                "of": one.price.of,
                "source": one.price.source,
            }
            for one in cost.charges
        ],
    }
