"""Hypothetical platforms (verb ``what_if``): changed figures, removed parts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Literal

from hetsim.core import checks
from hetsim.core.units import GIB, GIGA, KIB, MIB, MICRO, TERA, in_si
from hetsim.errors import UsageError, closest
from hetsim.hardware.kernel_figures import LEAST_S, PARAMETERS
from hetsim.hardware.routes import unreached
from hetsim.hardware.spec import DeviceSpec, Link, Platform, Supposed, numbered

_PLATFORM = checks.instance("hetsim.hardware.spec:Platform")
_TEXTS = checks.sequence(checks.text)


def what_if(platform: Platform, *changes: str, without: Sequence[str] = ()) -> Platform:
    """Return the platform with changed figures and without removed parts.

    Parameters
    ----------
    *changes : str
        ``WHAT.FIGURE AMOUNT`` each: ``gpu.memory =64GB``, ``link pcie4-x16.bandwidth x2``,
        ``npu.speed +10%``, ``*.dispatch /2``. WHAT is a device or a link by name or pattern, a link
        by its kind, too, or ``platform``; FIGURE a number of its file by its key or the first word
        of it, and ``speed``, all that a device or a link does; AMOUNT is ``x2``, ``/2``,
        ``+10%``, ``-10%``, ``=VALUE`` or ``+VALUE`` with its unit. They apply in order.
    without : sequence of str
        Devices or links to remove, by name or pattern.

    Returns
    -------
    Platform
        Its `supposed` lists the changes, and its `sha256` is that of the original.

    Raises
    ------
    UsageError
        For an unknown name or figure, with the known ones; an invalid amount; removal of the host,
        or of a device's last connection.

    Complexity: O(changes (P + L)).
    """
    _PLATFORM(platform, "platform")
    _TEXTS(changes, "changes")
    _TEXTS(without, "without")
    for text in changes:
        platform = _changed(platform, text)
    return _without(platform, without) if without else platform


def idle_changes(platform: Platform, changes: Sequence[str]) -> tuple[str, ...]:
    """Return the changes without effect on any figure, each applied after those before it.

    Raises as ``what_if``.
    """
    found = []
    for text in changes:
        after = _changed(platform, text)
        if replace(after, supposed=platform.supposed) == platform:
            found.append(text)
        platform = after
    return tuple(found)


@dataclass(frozen=True, slots=True)
class HardwareFigure:
    """Numeric field of a hardware file.

    - `key`, `short`: key in the YAML file, with its unit; and its short form.
    - `field`: field of the record, in SI units.
    - `quantity`: one of `UNITS`; empty: a plain number.
    - `key_unit`: the unit of the key, in SI units.
    - `zero`, `whole`: whether it may be 0, and must be an integer.
    - `most`: maximum, in SI units.
    - `table`: whether it has an entry for each precision, or class of operators.
    """

    key: str
    short: str
    field: str
    quantity: str = ""
    key_unit: float = 1.0
    zero: bool = False
    most: float = 1e24
    whole: bool = False
    table: bool = False

    def si(self, value: float) -> float:
        """Return a value given in the unit of the key in SI units."""
        found = in_si(value, self.key_unit)
        return round(found) if self.whole else found


OF_DEVICE = (
    HardwareFigure("peak_tflops", "peak", "flops_per_s", "FLOP/s", TERA, table=True),
    HardwareFigure("memory_bandwidth_gbytes_s", "bandwidth", "bytes_per_s", "bytes/s", GIGA),
    HardwareFigure("memory_gib", "memory", "memory_bytes", "bytes", GIB, whole=True),
    HardwareFigure("launch_us", "launch", "launch_s", "s", MICRO, zero=True),
    HardwareFigure("dispatch_us", "dispatch", "dispatch_s", "s", MICRO, zero=True),
    HardwareFigure("streams", "streams", "streams", whole=True, most=1e6),
    HardwareFigure("idle_w", "idle", "idle_w", "W", zero=True),
    HardwareFigure("busy_w", "busy", "busy_w", "W", zero=True),
    HardwareFigure("efficiency", "efficiency", "efficiency", most=1.0, table=True),
    HardwareFigure("memory_efficiency", "memory_efficiency", "memory_efficiency", most=1.0),
)
_OF_LINK = (
    HardwareFigure("latency_us", "latency", "latency_s", "s", MICRO, zero=True),
    HardwareFigure("bandwidth_gbytes_s", "bandwidth", "bytes_per_s", "bytes/s", GIGA),
)
_OF_PLATFORM = (
    HardwareFigure("power_w", "power", "power_w", "W"),
    HardwareFigure("memories", "memories", "memories", "bytes/s", GIGA),
)
_OF_KERNELS = tuple(
    HardwareFigure(known.name, known.name, known.name, known.unit, known.key_unit)
    for known in PARAMETERS
)

_SPEED = "speed"
"""Pseudo-figure for all work of a device or link: rates times the factor, times divided by it."""

_POWER = "power"
"""Pseudo-figure for the power of a device, idle and busy."""

_KERNELS = "kernels"
"""Prefix of kernel figures: `kernels.PARAMETER` or `kernels.PRECISION.PARAMETER`."""

_FASTER = ("rate_tflops", "bandwidth_gbytes_s", "weights_gbytes_s", "io_gbytes_s")
_SOONER = ("launch_us", "dispatch_us")

_BYTES = {"B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": GIGA, "TB": TERA,
          "KiB": float(KIB), "MiB": float(MIB), "GiB": float(GIB), "TiB": 1024.0 * GIB}  # fmt: skip
_BITS = {"kbit/s": 1e3 / 8, "Mbit/s": 1e6 / 8, "Gbit/s": GIGA / 8, "Tbit/s": TERA / 8}

UNITS: Mapping[str, Mapping[str, float]] = {
    "bytes": _BYTES,
    "bytes/s": {**{f"{unit}/s": size for unit, size in _BYTES.items()}, **_BITS},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "FLOP/s": {
        f"{prefix}{word}": size
        for prefix, size in (("M", 1e6), ("G", GIGA), ("T", TERA), ("P", 1e15))
        for word in ("FLOPS", "FLOP/s", "OPS", "OP/s")
    },
    "W": {"mW": 1e-3, "W": 1.0, "kW": 1e3},
}
"""Accepted units of each quantity, with their size in SI units; other quantities have none."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Change of a figure: ``x``, ``/``, ``=``, ``+`` or ``-``, a number, and its unit."""

    sign: str
    number: float
    unit: str

    @property
    def relative(self) -> bool:
        """Whether it is a factor, which applies to every figure."""
        return self.sign in "x/" or self.unit == "%"

    @property
    def factor(self) -> float:
        """Factor of a relative change."""
        if self.unit == "%":
            part = self.number / 100
            return 1 + part if self.sign == "+" else 1 - part
        return self.number if self.sign == "x" else 1 / self.number

    def applied(self, before: float, known: HardwareFigure, name: str) -> float:
        """Return a figure, in SI units, after the change."""
        if self.relative:
            value = before * self.factor
        else:
            stated = in_si(self.number, self._unit_size(known, name))
            value = stated if self.sign == "=" else before + (-stated, stated)[self.sign == "+"]
        if not (0.0 if known.zero else math.ulp(0.0)) <= value <= known.most:
            edge = "from 0 on" if known.zero else "above 0"
            edge += f" and at most {known.most:g}" if known.most < 1e24 else ""
            raise UsageError(f"{known.short} would be {value:g}", hint=f"it must be {edge}")
        if not known.whole:
            return value
        # Bytes are rounded; what is counted is not.
        if known.quantity != "bytes" and value != round(value):
            raise UsageError(f"{known.short} would be {value:g}", hint="it must be a whole number")
        return round(value)

    def _unit_size(self, known: HardwareFigure, name: str) -> float:
        units = UNITS.get(known.quantity, {})
        if self.unit in units:
            return units[self.unit]
        if self.unit:
            have = ", ".join(units) if units else "none: it is a plain number"
            raise UsageError(f"'{self.unit}' is not a unit of it", hint=f"its units are {have}")
        if units and name != known.key:
            hint = f"add a unit: {', '.join(units)}"
            raise UsageError(f"the unit of {self.number:g} is missing", hint=hint)
        return known.key_unit if units else 1.0


_FORMS = "write x2, /2, +10%, -10% or =VALUE"
_AMOUNT = re.compile(
    r"(?P<what>.*?)(?<!\s)(?:\s++(?P<times>[x*])\s*+|\s*+(?P<sign>[/=+-])\s*+)"
    r"(?P<number>[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*+(?P<unit>%|[A-Za-z][A-Za-z/]*)?\s*+"
)


def read_amount(text: str) -> tuple[str, Amount]:
    """Return the text before the amount at the end of `text`, and the amount."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        hint = f"{_FORMS}, e.g. 'gpu.memory =64GB' or 'link cpu-gpu.bandwidth x2'"
        raise UsageError("it does not end in a change", hint=hint)
    sign = found["sign"] or "x"
    try:
        number = float(found["number"])
    except ValueError:
        number = math.nan
    amount = Amount(sign, number, found["unit"] or "")
    if not math.isfinite(number):
        raise UsageError(f"'{found['number']}' is not a number", hint=_FORMS)
    if amount.unit == "%" and sign not in "+-":
        raise UsageError("a percentage is an increase or a decrease", hint="write +10% or -10%")
    if sign in "x/" and amount.unit:
        raise UsageError("a factor has no unit", hint="write x2 or /2")
    if sign in "x/" and number == 0.0:
        raise UsageError("a factor of 0 leaves nothing of the figure", hint=_FORMS)
    if amount.relative and amount.factor <= 0:
        raise UsageError("it leaves nothing of the figure", hint="subtract less than 100%")
    return found["what"].strip(), amount


@contextmanager
def _told_of(where: str) -> Iterator[None]:
    """Locate errors at `where`, within the context."""
    try:
        yield
    except UsageError as error:
        raise UsageError(error.what, where=where, hint=error.hint) from None


def _changed(platform: Platform, text: str) -> Platform:
    with _told_of(f"what if '{text}'"):
        what, amount = read_amount(text)
        sort, names, figure = _split(what, platform)
        if sort == "platform":
            made = _changed_whole(platform, figure, amount)
        elif sort == "link":
            links = (
                _changed_link(link, figure, amount) if link.name in names else link
                for link in platform.links
            )
            made = replace(platform, links=tuple(links))
        else:
            devices = {
                name: changed_device(spec, figure, amount) if name in names else spec
                for name, spec in platform.devices.items()
            }
            made = replace(platform, devices=devices)
    before = platform.supposed or Supposed(read=platform)
    after = replace(
        before,
        changes=(*before.changes, " ".join(text.split())),
        devices=before.devices | (set(names) if sort == "device" else set()),
        links=before.links | (set(names) if sort == "link" else set()),
    )
    return replace(made, supposed=after)


def _without(platform: Platform, texts: Sequence[str]) -> Platform:
    """The platform without all of these at once."""
    devices, links = set[str](), set[str]()
    for text in texts:
        with _told_of(f"without '{text}'"):
            sort, names = _chosen(text, platform)
            if sort == "device" and platform.host in names:
                raise UsageError(
                    f"'{platform.host}' is the host, where inputs start and outputs end",
                    hint="write a platform with another host",
                )
        (devices if sort == "device" else links).update(names)
    kept = tuple(link for link in platform.links if link.name not in links)
    made = replace(platform, links=kept)
    if devices:
        made = _without_devices(made, devices)
    lost = unreached(made.host, made.devices, made.links)
    if lost:
        also = " ".join(f"--without {name}" for name in lost)
        raise UsageError(
            f"the host '{made.host}' would have no link to {', '.join(lost)}",
            where=f"without '{', '.join(texts)}'",
            hint=f"remove what cannot be reached as well ({also})",
        )
    before = platform.supposed or Supposed(read=platform)
    told = (" ".join(text.split()) for text in texts)
    return replace(made, supposed=replace(before, without=(*before.without, *told)))


def _without_devices(platform: Platform, names: set[str]) -> Platform:
    memories = (
        replace(memory, devices=tuple(name for name in memory.devices if name not in names))
        for memory in platform.memories
    )
    return replace(
        platform,
        devices={name: spec for name, spec in platform.devices.items() if name not in names},
        links=tuple(link for link in platform.links if not {link.a, link.b} & names),
        memories=tuple(memory for memory in memories if len(memory.devices) > 1),
    )


Sort = Literal["device", "link", "platform"]
_SORTS: tuple[Sort, ...] = ("device", "link", "platform")
_LISTED = 12


def _split(text: str, platform: Platform) -> tuple[Sort, tuple[str, ...], str]:
    """Return the sort of a name like ``gpu.0.memory``, its devices or links, and the figure."""
    said, name = _said(text, _SORTS)
    dots = [at for at, letter in enumerate(name) if letter == "."]
    if not dots:
        raise UsageError(
            (f"'{text}' does not name a figure"), hint="write NAME.FIGURE, e.g. gpu.memory"
        )
    for at in reversed(dots):
        found = {
            sort: names
            for sort, names in _called(name[:at], platform).items()
            if said in (None, sort) and names
        }
        if len(found) > 1:
            # For names of both sorts, the figure may decide.
            found = {sort: found[sort] for sort in found if _has(sort, name[at + 1 :])} or found
        if len(found) > 1:
            raise _of_both(name[:at], text)
        for sort, names in found.items():
            return sort, names, name[at + 1 :]
    raise _unknown(said or "device or link", name[: dots[-1]], platform)


def _chosen(text: str, platform: Platform) -> tuple[Sort, tuple[str, ...]]:
    """Return the devices or links of ``gpu.0``, ``gpu`` or ``link pcie*``."""
    said, name = _said(text.strip(), ("device", "link"))
    called = _called(name, platform)
    if said is None and called["device"] and called["link"] and "*" not in name:
        raise _of_both(name, name)
    sorts: tuple[Sort, ...] = ("device", "link")
    for sort in sorts if said is None else (said,):
        if called[sort]:
            return sort, called[sort]
    raise _unknown(said or "device or link", name, platform)


def _said(text: str, sorts: Sequence[Sort]) -> tuple[Sort | None, str]:
    """Return the sort at the start of `text`, if it names one, and the rest."""
    word, _, rest = text.partition(" ")
    sort = next((sort for sort in sorts if sort == word and rest.strip()), None)
    return sort, text if sort is None else rest.strip()


def _of_both(name: str, text: str) -> UsageError:
    hint = f"write 'device {text}' or 'link {text}'"
    return UsageError(f"'{name}' is both a device and a link", hint=hint)


def _has(sort: Sort, figure: str) -> bool:
    first = figure.partition(".")[0]
    known = _OF_LINK if sort == "link" else OF_DEVICE
    more = (_SPEED,) if sort == "link" else (_SPEED, _POWER, _KERNELS)
    return first in more or any(first in (each.key, each.short) for each in known)


def _called(name: str, platform: Platform) -> dict[Sort, tuple[str, ...]]:
    """Return the devices and links of a name or a pattern, by sort."""
    devices, links = tuple(platform.devices), platform.links
    of_links = _matching(name, [link.name for link in links])
    return {
        "device": devices if name == "*" else _matching(name, devices) or numbered(name, devices),
        "link": of_links or tuple(link.name for link in links if fnmatchcase(link.of, name)),
        "platform": ("platform",) if name in ("platform", platform.name) else (),
    }


def _matching(name: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(each for each in names if each == name or fnmatchcase(each, name))


def _unknown(sort: str, name: str, platform: Platform) -> UsageError:
    """Return the error for an unknown name, with all known ones."""
    there = []
    if sort != "link":
        there.append(f"the devices {_listed(tuple(platform.devices))}")
    if sort != "device":
        kinds = [f"{link.name} ({link.of})" if link.of else link.name for link in platform.links]
        there.append(f"the links {_listed(kinds)}" if kinds else "no link")
    names = [] if sort == "link" else list(platform.devices)
    # A device's name alone is equally near to each of its links.
    names += [link.name for link in platform.links if "-" in name and sort != "device"]
    hint = f"{closest(name, names)} there are {' and '.join(there)}".lstrip()
    return UsageError(f"no {sort} '{name}' on {platform.name}", hint=hint)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _figure_called(
    name: str, known: Sequence[HardwareFigure], more: Sequence[str], of: str
) -> HardwareFigure:
    """Return the figure with this key, or short name."""
    for figure in known:
        if name in (figure.key, figure.short):
            return figure
    short = dict.fromkeys([*(figure.short for figure in known), *more])
    hint = f"{closest(name, short)} it has {', '.join(short)}".lstrip()
    raise UsageError(f"{of} has no figure '{name}'", hint=hint)


def _changed_link(link: Link, figure: str, amount: Amount) -> Link:
    if figure == _SPEED:
        factor = _factor_of(amount)
        return replace(
            link, latency_s=link.latency_s / factor, bytes_per_s=link.bytes_per_s * factor
        )
    known = _figure_called(figure, _OF_LINK, (_SPEED,), f"link '{link.name}'")
    changed: dict[str, Any] = {
        known.field: amount.applied(getattr(link, known.field), known, figure)
    }
    return replace(link, **changed)


def _changed_whole(platform: Platform, figure: str, amount: Amount) -> Platform:
    known = _figure_called(figure, _OF_PLATFORM, (), f"platform '{platform.name}'")
    if known.field == "memories":
        if not platform.memories:
            raise UsageError(
                f"{platform.name} has no shared memory",
                hint="change the bandwidth of a device",
            )
        memories = (
            replace(memory, bytes_per_s=amount.applied(memory.bytes_per_s, known, ""))
            for memory in platform.memories
        )
        return replace(platform, memories=tuple(memories))
    if platform.power_w is None and amount.sign != "=":
        raise UsageError(
            f"{platform.name} has no figure for the power of its devices together",
            hint="write platform.power =30W",
        )
    return replace(platform, power_w=amount.applied(platform.power_w or 0.0, known, figure))


def changed_device(spec: DeviceSpec, figure: str, amount: Amount) -> DeviceSpec:
    """Return the device with a figure changed."""
    name, _, entry = figure.partition(".")
    if name == _SPEED and not entry:
        return _at_speed(spec, _factor_of(amount))
    if name == _POWER and not entry:
        if not amount.relative:
            hint = "write busy =300W or idle =20W"
            raise UsageError("power has an idle and a busy figure", hint=hint)
        drawn = (spec.idle_w * amount.factor, spec.busy_w * amount.factor)
        return _checked(replace(spec, idle_w=drawn[0], busy_w=drawn[1]))
    if name == _KERNELS and entry:
        return _changed_kernels(spec, entry, amount)
    more = (_SPEED, _POWER, "kernels.PARAMETER")
    known = _figure_called(name, OF_DEVICE, more, f"device '{spec.name}'")
    if entry and not known.table:
        raise UsageError(f"'{known.short}' has no entry '{entry}'", hint="leave it out")
    before: Any = getattr(spec, known.field)
    after: Any
    if not known.table:
        after = amount.applied(before, known, name)
    elif entry and entry not in before:
        hint = f"it has {', '.join(before)}"
        raise UsageError(f"'{known.short}' has no entry '{entry}'", hint=hint)
    elif not entry and not amount.relative and len(before) > 1:
        names = ", ".join(f"{known.short}.{each}" for each in before)
        raise UsageError(f"'{known.short}' has several entries", hint=f"name one: {names}")
    else:
        after = {
            key: amount.applied(value, known, name) if entry in ("", key) else value
            for key, value in before.items()
        }
    return _checked(_followed(replace(spec, **{known.field: after}), spec, known, amount))


def _factor_of(amount: Amount) -> float:
    if not amount.relative:
        raise UsageError("speed is not a figure of its own", hint="write x2, /2, +10% or -10%")
    return amount.factor


def _checked(spec: DeviceSpec) -> DeviceSpec:
    if spec.busy_w < spec.idle_w:
        raise UsageError(
            f"it would consume {spec.busy_w:g} W busy, and {spec.idle_w:g} W idle",
            hint="busy power must be at least idle power",
        )
    return spec


def _followed(
    spec: DeviceSpec, base: DeviceSpec, known: HardwareFigure, amount: Amount
) -> DeviceSpec:
    """Return the device with kernel figures adjusted to the change."""
    kernels = dict(spec.kernels)
    for precision, figures in spec.kernels.items():
        if known.field == "flops_per_s":
            rates = {key: rate / base.flops_per_s[key] for key, rate in spec.flops_per_s.items()}
            # Kernels of a precision without a stated peak scale if all peaks do.
            first = next(iter(rates.values()), 1.0)
            alike = all(rate == first for rate in rates.values())
            ratio = rates.get(precision, first if alike else 1.0)
            kernels[precision] = figures.times(ratio, "rate_tflops")
        elif known.field in ("bytes_per_s", "memory_efficiency"):
            ratio = getattr(spec, known.field) / getattr(base, known.field)
            kernels[precision] = figures.times(ratio, "bandwidth_gbytes_s", "weights_gbytes_s")
        elif known.field in ("launch_s", "dispatch_s"):
            # A stated value applies as it is; a factor scales the fitted one.
            stated = getattr(spec, known.field)
            after = figures.value(known.key) * amount.factor if amount.relative else stated
            kernels[precision] = figures.having({known.key: max(after, LEAST_S)})
    return replace(spec, kernels=kernels)


def _at_speed(spec: DeviceSpec, factor: float) -> DeviceSpec:
    """Return the device `factor` times as fast in everything; its power stays."""
    return replace(
        spec,
        flops_per_s={key: rate * factor for key, rate in spec.flops_per_s.items()},
        bytes_per_s=spec.bytes_per_s * factor,
        launch_s=spec.launch_s / factor,
        dispatch_s=spec.dispatch_s / factor,
        kernels={
            precision: figures.times(factor, *_FASTER).times(1 / factor, *_SOONER)
            for precision, figures in spec.kernels.items()
        },
    )


def _changed_kernels(spec: DeviceSpec, entry: str, amount: Amount) -> DeviceSpec:
    """Return the device with a kernel parameter changed, for one precision or all."""
    of = f"device '{spec.name}'"
    if not spec.kernels:
        raise UsageError(f"{of} has no kernel figures", hint="change its peak or bandwidth")
    precision, _, name = entry.rpartition(".")
    if precision and precision not in spec.kernels:
        raise UsageError(
            f"{of} has no kernel figures in {precision}",
            hint=f"it has {', '.join(spec.kernels)}",
        )
    known = _figure_called(name, _OF_KERNELS, (), f"'kernels' of {of}")
    kernels = {
        each: figures.having({name: amount.applied(figures.value(name), known, name)})
        if precision in ("", each)
        else figures
        for each, figures in spec.kernels.items()
    }
    return replace(spec, kernels=kernels)
