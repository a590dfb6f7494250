"""Platforms and deployments of vectors: composed, priced, as records and as files.

Requests arrive at the selected host. Without one, they arrive at a *front* that neither computes
nor costs anything; nodes without a link of their own are connected to it by a link that takes
practically no time (a megabyte in a femtosecond).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from fractions import Fraction
from pathlib import Path
from typing import Any

from hetsim.errors import PlatformError, UsageError, nearest
from hetsim.hardware.files.catalog_files import find, is_path, names
from hetsim.hardware.files.inventory import InventoryEntry
from hetsim.hardware.files.reader import describes_device, survey
from hetsim.hardware.files.yaml_source import YamlFile, read_yaml
from hetsim.hardware.price import HOURS_A_YEAR, Price
from hetsim.hardware.spec import Platform
from hetsim.provisioning.platforms.policies import PlacedInstances, Policy
from hetsim.provisioning.platforms.question import UNIT, Aim, Counts, Question
from hetsim.simulation.service.cost import ServicePrices
from hetsim.workload.deployment import Deployment, DynamicBatching, Instances, Served

NAME = "recommended"
WATTS = 1000
FRONT = "front"

_FRONT: Mapping[str, Any] = {
    "device": {
        "kind": "cpu",
        "full_name": "Where requests come; it computes nothing",
        "peak_tflops": {"float32": 1.0},
        "memory_bandwidth_gbytes_s": 1.0,
        "memory_gib": 1024.0,
        "launch_us": 0.0,
        "dispatch_us": 0.0,
        "streams": 1,
        "idle_w": 0.0,
        "busy_w": 0.0,
        "efficiency": {"default": 1.0},
        "memory_efficiency": 1.0,
        "support": {"ops": []},
    }
}

_NO_COST: Mapping[str, Any] = {"latency_us": 0.0, "bandwidth_gbytes_s": 1e12}


@dataclass(frozen=True, slots=True, eq=False)
class Components:
    """Devices and links of one kind, as in a platform file.

    `devices` are by the kind's own names, "" for a device alone, `links` and `memories` connect
    these. Requests arrive at `host`, which `link` connects to the host of the platform; a host kind
    has none. `price` covers all of it.
    """

    name: str
    devices: Mapping[str, Any]
    links: tuple[Mapping[str, Any], ...]
    memories: tuple[Mapping[str, Any], ...]
    host: str
    link: Mapping[str, Any] = field(default_factory=dict)
    is_host: bool = False
    price: Price | None = None

    def names(self, unit: int) -> dict[str, str]:
        """Return the names of its devices on a platform, by its own names."""
        if self.is_host:
            return {own: own or self.name for own in self.devices}
        return {
            own: f"{self.name}-{own.replace('.', '-')}.{unit}" if own else f"{self.name}.{unit}"
            for own in self.devices
        }


def components_of(entry: InventoryEntry, folder: Path) -> Components:
    """Return the components of a kind or host. Raises PlatformError for an invalid file."""
    is_host = bool(entry.slots)
    link = {} if is_host else dict(entry.link) or _NO_COST
    if isinstance(named := link.get("link"), str):
        link = {**link, "link": _absolute(named, folder)}

    def alone(source: str) -> Components:
        return Components(entry.name, {"": source}, (), (), "", link, is_host=is_host)

    if entry.host:
        inside = {"between": ["cpu", "card"], "link": entry.inside}
        both = {"cpu": entry.host, "card": entry.source}
        return Components(entry.name, both, (inside,), (), "cpu", link)
    if entry.on_link or entry.source in names("device"):
        return alone(_absolute(entry.source, folder))
    path, shown = find("platform", entry.source, folder)
    read = read_yaml(path, shown)
    data = read.data
    if describes_device(data):
        return alone(str(path.resolve()))
    # Errors in the file name the file.
    platform, wrong = survey(read, entry.source)
    if platform is None:
        raise wrong[0].whole
    base = path.parent
    devices = {own: _device(use, base) for own, use in data["devices"].items()}
    links = tuple(
        {**use, **({"link": _absolute(use["link"], base)} if "link" in use else {})}
        for use in data.get("links", ())
    )
    return Components(
        entry.name,
        devices,
        links,
        tuple(data.get("memories", ())),
        platform.host,
        link,
        is_host=is_host,
        price=platform.price,
    )


def _device(use: Any, base: Path) -> Any:
    if isinstance(use, str):
        return _absolute(use, base)
    if isinstance(use.get("device"), str):
        return {**use, "device": _absolute(use["device"], base)}
    return use


def _absolute(given: str, base: Path) -> str:
    return str((base / given).resolve()) if is_path(given) else given


def description(
    components: Sequence[Components], counts: Sequence[int], name: str
) -> dict[str, Any]:
    """Return the content of the platform file of a vector."""
    devices: dict[str, Any] = {}
    links: list[Any] = []
    memories: list[Any] = []
    host = next((one for one, n in zip(components, counts, strict=True) if one.is_host and n), None)
    front = FRONT
    if host is None:
        devices[FRONT] = dict(_FRONT)
    else:
        front = host.names(0)[host.host]
    for one, count in zip(components, counts, strict=True):
        for unit in range(count):
            called = one.names(unit)
            for own_name, use in one.devices.items():
                if called[own_name] in devices:
                    raise PlatformError(
                        f"two devices are called '{called[own_name]}'",
                        where=f"kind '{one.name}'",
                        hint="rename the kind",
                    )
                devices[called[own_name]] = use
            if not one.is_host:
                links.append({"between": [front, called[one.host]], **one.link})
            for link in one.links:
                inside = {**link, "between": [called[end] for end in link["between"]]}
                for key in ("bus", "name"):
                    if key in link and not one.is_host:
                        inside[key] = f"{one.name}-{link[key]}.{unit}"
                links.append(inside)
            memories += [
                {**memory, "devices": [called[end] for end in memory["devices"]]}
                for memory in one.memories
            ]
    found: dict[str, Any] = {"name": name, "host": front, "devices": devices}
    if links:
        found["links"] = links
    if memories:
        found["memories"] = memories
    return found


def composed(components: Sequence[Components], counts: Sequence[int], name: str) -> Platform:
    """Return the platform of a vector. Raises PlatformError if it is invalid."""
    data = description(components, counts, name)
    platform, wrong = survey(YamlFile(Path(f"{name}.yaml"), name, data, {(): 1}), name)
    if platform is None:
        raise wrong[0].whole
    return platform


# Recommendations as records and files


def platform_of(question: Question, components: Sequence[Components], counts: Counts) -> Platform:
    """Return the platform of a vector, with its price if the aim is cost."""
    platform = composed(components, counts, NAME)
    return replace(platform, price=_price(question, counts))


def platform_file(
    question: Question, components: Sequence[Components], counts: Counts
) -> dict[str, Any]:
    """Return the content of the file of that platform."""
    found = description(components, counts, NAME)
    price = _price(question, counts)
    if price is not None:
        keys = ("usd_per_hour", "of", "source")
        found["price"] = {key: getattr(price, key) for key in keys}
    return found


def _price(question: Question, counts: Counts) -> Price | None:
    """Return the hourly cost of the whole vector, with its maximum electricity."""
    if question.aim != "cost":
        return None
    dates = [
        kind.price.of
        for count, kind in zip(counts, question.kinds, strict=True)
        if count and kind.price is not None
    ]
    source = f"{question.told(counts)}: hours of what is bought, and its electricity where busy"
    return Price(usd_per_hour=question.amount(counts), of=max(dates) or "2000", source=source)


def deployment_of(
    question: Question, components: Sequence[Components], where: PlacedInstances, policy: Policy
) -> Deployment:
    """Return the deployment of a policy on a vector."""
    models = []
    for model, mine in enumerate(where.instances):
        # Batch sizes that its file takes, up to the policy's.
        ways = where.ways(question, mine[0], question.classes_of[model][0])
        sizes = tuple(way.batch for way in ways if way.batch <= policy.max_batch)
        instances = []
        for one in mine:
            called = []
            for place in (where.places[at] for at in one.devices):
                piece = components[place.kind]
                called.append(piece.names(place.unit)[list(piece.devices)[place.slot]])
            strategy = None if one.split < 0 else question.splits[one.split].strategy
            most = policy.limit(where.streams(question, one)) or None
            instances.append(Instances(1, tuple(called), strategy, max_in_flight=most))
        models.append(
            Served(
                question.models[model],
                strategy="single",
                batch_sizes=sizes if len(sizes) > 1 else (),
                instances=tuple(instances),
                routing=policy.routing,
                dynamic_batching=DynamicBatching(sizes[-1]) if len(sizes) > 1 else None,
            )
        )
    return Deployment(tuple(models))


# Costs


KindCost = tuple[int, Mapping[str, str], Price | None]
"""Cost of one of a kind, in ``UNIT``, its parts, in decimals, and its price."""


def costs_of(
    aim: Aim, entries: Sequence[InventoryEntry], alone: Sequence[Platform], terms: ServicePrices
) -> tuple[KindCost, ...]:
    """Cost of one of each kind.

    - cost: US dollars per hour. Purchased hardware costs the same every hour of its depreciation
    period, plus the electricity of all its devices busy, by the tariff: an upper bound that is
    independent of the load, so that costs add up over counts.
    - energy: watts with all devices busy, for the same reason.
    - devices: their number without hosts.

    Raises UsageError if a price, its depreciation period or the tariff is unknown, naming the
    kinds; or if a given price matches nothing available.
    """
    names = [one.name for one in entries]
    for pattern in terms.of:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(
                f"a price of '{pattern}', which the catalog does not have",
                hint=nearest(pattern, names),
            )
    prices = [_price_of(one, spec, terms) for one, spec in zip(entries, alone, strict=True)]
    if aim == "cost":
        _check(names, prices, terms)
    found = []
    for entry, platform, price in zip(entries, alone, prices, strict=True):
        busy_w = (Decimal(str(spec.busy_w)) for spec in platform.devices.values())
        power_w = f"{sum(busy_w, Decimal(0)).normalize():f}"
        parts: dict[str, str] = {}
        if aim == "energy":
            parts = {"power_w": power_w}
        elif aim == "cost" and price is not None and price.usd_per_hour is not None:
            parts = {"usd_per_hour": str(price.usd_per_hour)}
        elif aim == "cost" and price is not None:
            years = price.years if terms.depreciation_years is None else terms.depreciation_years
            parts = {"usd": str(price.usd), "years": str(years), "power_w": power_w,
                     "usd_per_kwh": str(terms.tariff_usd_per_kwh)}  # fmt: skip
        exact = {name: Fraction(text) for name, text in parts.items()}
        found.append((cost_of(aim, exact, int(not entry.slots)), parts, price))
    return tuple(found)


def cost_of(aim: Aim, parts: Mapping[str, Fraction], counted: int) -> int:
    """Return the cost in ``UNIT``, rounded half to even. Raises KeyError if parts are missing."""
    exact = Fraction(counted)
    if aim == "energy":
        exact = parts["power_w"]
    elif aim == "cost" and "usd" in parts:
        exact = parts["usd"] / max(parts["years"], Fraction(1, 10**6)) / Fraction(HOURS_A_YEAR)
        exact += parts.get("power_w", 0) * parts.get("usd_per_kwh", Fraction(0)) / WATTS
    elif aim == "cost":
        exact = parts["usd_per_hour"]
    return round(exact / UNIT[aim])


def _check(names: Sequence[str], prices: Sequence[Price | None], terms: ServicePrices) -> None:
    each = list(zip(names, prices, strict=True))
    unpriced = [name for name, price in each if price is None]
    if unpriced:
        raise UsageError(
            f"{', '.join(unpriced)} has no price",
            hint=f"give --price {unpriced[0]}=0.53/h or {unpriced[0]}=1600/3y, or price: in a "
            "catalog file; or another --objective",
        )
    bought = [(name, price) for name, price in each if price is not None and not price.rented]
    endless = [
        name for name, price in bought if price.years is None and terms.depreciation_years is None
    ]
    if endless:
        raise UsageError(
            f"{', '.join(endless)} has no depreciation period",
            hint="give --depreciation, e.g. --depreciation 3y",
        )
    if bought and terms.tariff_usd_per_kwh is None:
        raise UsageError(
            f"no electricity tariff is given for {', '.join(name for name, _ in bought)}",
            hint="give --tariff USD_PER_KWH",
        )


def _price_of(entry: InventoryEntry, platform: Platform, terms: ServicePrices) -> Price | None:
    """Return the price: given ones override the catalog's file, which overrides devices' files."""
    found = entry.price
    if found is None:
        found = platform.price
    mine = [spec for name, spec in platform.devices.items() if name != FRONT]
    if found is None and len(mine) == 1:
        found = mine[0].price
    for pattern, price in terms.of.items():
        if fnmatchcase(entry.name, pattern):
            found = price
    return found
