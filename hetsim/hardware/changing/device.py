"""A device with a figure changed, and the figures of its kernels as they follow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hetsim.errors import UsageError
from hetsim.hardware.changing.amounts import Amount
from hetsim.hardware.changing.figures import (
    KERNELS,
    OF_DEVICE,
    OF_KERNELS,
    POWER,
    SPEED,
    Figure,
    figure_called,
)
from hetsim.hardware.kernel_figures import LEAST_S
from hetsim.hardware.spec import DeviceSpec

FASTER = ("rate_tflops", "bandwidth_gbytes_s", "weights_gbytes_s", "io_gbytes_s")
"""Rates of kernels, in bytes and FLOP a second: what relates to them stays as it is."""

SOONER = ("launch_us", "dispatch_us")
"""What kernels and subgraphs wait for."""


def changed_device(spec: DeviceSpec, figure: str, amount: Amount, where: str) -> DeviceSpec:
    """Return the device with a figure changed.

    What its kernels take follows: their rates by the peak of their precision, their bandwidths by
    that of the memory, launch and dispatch as they are changed. ``speed`` is a factor on all of
    them. O(precisions).

    Raises
    ------
    UsageError
        Where it has no such figure, or it cannot be what it would be.
    """
    name, _, entry = figure.partition(".")
    of = f"device '{spec.name}'"
    if name == SPEED and not entry:
        return _at_speed(spec, factor_of(amount, where))
    if name == POWER and not entry:
        if not amount.relative:
            raise UsageError(
                "power is drawn idle and busy", where=where, hint="write busy =300W or idle =20W"
            )
        drawn = (spec.idle_w * amount.factor, spec.busy_w * amount.factor)
        return _checked(replace(spec, idle_w=drawn[0], busy_w=drawn[1]), where)
    if name == KERNELS and entry:
        return _of_kernels(spec, entry, amount, where)
    known = figure_called(name, OF_DEVICE, (SPEED, POWER, "kernels.PARAMETER"), of, where)
    if entry and not known.table:
        raise UsageError(
            f"'{known.short}' has no entry '{entry}'", where=where, hint="leave it out"
        )
    key_unit = known.key_unit if name == known.key else None
    before = getattr(spec, known.field)
    after: Any
    if known.table:
        after = _entries(before, entry, known, amount, key_unit, where)
    else:
        after = figure_after(before, known, amount, key_unit, where)
    made = replace(spec, **{known.field: after})
    return _checked(_followed(made, spec, known, amount), where)


def factor_of(amount: Amount, where: str) -> float:
    """Return the factor of a change that has to be one. Raises UsageError where it is not."""
    if not amount.relative:
        raise UsageError(
            "speed is no figure of its own", where=where, hint="write x2, /2, +10% or -10%"
        )
    return amount.factor


def figure_after(
    before: float, known: Figure, amount: Amount, key_unit: float | None, where: str
) -> float:
    """Return a figure, in SI units, as it is after a change.

    Raises UsageError where it cannot be that.
    """
    value = amount.applied(before, known.quantity, key_unit, where)
    least = 0.0 if known.zero else math.ulp(0.0)
    if not least <= value <= known.most:
        edge = "from 0 on" if known.zero else "above 0"
        edge += f" and at most {known.most:g}" if known.most < 1e24 else ""
        raise UsageError(
            f"{known.short} would be {value:g}", where=where, hint=f"it has to be {edge}"
        )
    if not known.whole:
        return value
    # Bytes are rounded; what is counted is not.
    if known.quantity != "bytes" and value != round(value):
        raise UsageError(
            f"{known.short} would be {value:g}", where=where, hint="it has to be a whole number"
        )
    return round(value)


def _entries(
    before: Mapping[str, float],
    entry: str,
    known: Figure,
    amount: Amount,
    key_unit: float | None,
    where: str,
) -> dict[str, float]:
    if entry and entry not in before:
        raise UsageError(
            f"'{known.short}' has no entry '{entry}'",
            where=where,
            hint=f"it has {', '.join(before)}",
        )
    if not entry and not amount.relative and len(before) > 1:
        raise UsageError(
            f"'{known.short}' has several entries",
            where=where,
            hint=f"name one: {', '.join(f'{known.short}.{each}' for each in before)}",
        )
    return {
        key: figure_after(value, known, amount, key_unit, where) if entry in ("", key) else value
        for key, value in before.items()
    }


def _checked(spec: DeviceSpec, where: str) -> DeviceSpec:
    if spec.busy_w < spec.idle_w:
        raise UsageError(
            f"it would draw {spec.busy_w:g} W busy, and {spec.idle_w:g} W idle",
            where=where,
            hint="a busy device draws its idle power at least",
        )
    return spec


def _followed(spec: DeviceSpec, base: DeviceSpec, known: Figure, amount: Amount) -> DeviceSpec:
    """The device with the figures of its kernels as they follow from what was changed."""
    if not spec.kernels:
        return spec
    kernels = dict(spec.kernels)
    for precision, figures in spec.kernels.items():
        if known.field == "flops_per_s":
            rates = {key: rate / base.flops_per_s[key] for key, rate in spec.flops_per_s.items()}
            # Kernels of a precision that no peak is stated of follow where all of them do.
            first = next(iter(rates.values()), 1.0)
            alike = all(rate == first for rate in rates.values())
            ratio = rates.get(precision, first if alike else 1.0)
            kernels[precision] = figures.times(ratio, "rate_tflops")
        elif known.field in ("bytes_per_s", "memory_efficiency"):
            ratio = getattr(spec, known.field) / getattr(base, known.field)
            kernels[precision] = figures.times(ratio, "bandwidth_gbytes_s", "weights_gbytes_s")
        elif known.field in ("launch_s", "dispatch_s"):
            # What is stated counts as it is; a factor is one on what was fitted.
            stated = getattr(spec, known.field)
            was = figures.value(known.key)
            after = was * amount.factor if amount.relative else stated
            kernels[precision] = figures.having({known.key: max(after, LEAST_S)})
    return replace(spec, kernels=kernels)


def _at_speed(spec: DeviceSpec, factor: float) -> DeviceSpec:
    """The device `factor` times as fast in all that it does; its power stays."""
    return replace(
        spec,
        flops_per_s={key: rate * factor for key, rate in spec.flops_per_s.items()},
        bytes_per_s=spec.bytes_per_s * factor,
        launch_s=spec.launch_s / factor,
        dispatch_s=spec.dispatch_s / factor,
        kernels={
            precision: figures.times(factor, *FASTER).times(1 / factor, *SOONER)
            for precision, figures in spec.kernels.items()
        },
    )


def _of_kernels(spec: DeviceSpec, entry: str, amount: Amount, where: str) -> DeviceSpec:
    """The device with one parameter of its kernels changed, of one precision or of all."""
    of = f"device '{spec.name}'"
    if not spec.kernels:
        raise UsageError(
            f"{of} has no figures of kernels", where=where, hint="change its peak or bandwidth"
        )
    precision, _, name = entry.rpartition(".")
    if precision and precision not in spec.kernels:
        raise UsageError(
            f"{of} has no figures of kernels in {precision}",
            where=where,
            hint=f"it has {', '.join(spec.kernels)}",
        )
    known = figure_called(name, OF_KERNELS, (), f"'kernels' of {of}", where)
    kernels = {
        each: figures.having(
            {name: figure_after(figures.value(name), known, amount, known.key_unit, where)}
        )
        if precision in ("", each)
        else figures
        for each, figures in spec.kernels.items()
    }
    return replace(spec, kernels=kernels)
