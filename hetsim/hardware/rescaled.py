"""Figures of kernels on a device whose datasheet a platform overrides: they follow it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from hetsim.hardware.kernel_figures import LEAST_S, KernelFigures
from hetsim.hardware.spec import DeviceSpec


def rescaled(spec: DeviceSpec, base: DeviceSpec, overrides: Collection[str]) -> DeviceSpec:
    """Return `spec`, which is `base` with some keys overridden, with its figures as they follow.

    Rates of a precision follow its peak, and bandwidths that of the memory, in proportion; launch
    and dispatch are what is stated. Figures that are overridden themselves stay. What follows is
    of status ``derived``, and says so in its source. O(precisions).

    Parameters
    ----------
    overrides : collection of str
        Keys of the device's file that are overridden.
    """
    if "kernels" in overrides or not spec.kernels:
        return spec

    def follow(kernels: Mapping[str, KernelFigures]) -> dict[str, KernelFigures]:
        return {
            precision: _follows(figures, precision, spec, base, overrides)
            for precision, figures in kernels.items()
        }

    runtimes = {name: follow(kernels) for name, kernels in spec.runtimes.items()}
    return replace(spec, kernels=follow(spec.kernels), runtimes=runtimes)


def _follows(
    figures: KernelFigures,
    precision: str,
    spec: DeviceSpec,
    base: DeviceSpec,
    overrides: Collection[str],
) -> KernelFigures:
    changes: dict[str, tuple[float, str]] = {}
    peak, was = spec.flops_per_s.get(precision), base.flops_per_s.get(precision)
    if peak is not None and was is not None and peak != was:
        rate = figures.value("rate_tflops") * peak / was
        changes["rate_tflops"] = rate, "by the ratio of the peaks, as the platform overrides it"
    reached = (
        spec.bytes_per_s * spec.memory_efficiency / (base.bytes_per_s * base.memory_efficiency)
    )
    if reached != 1.0:
        how = "by the ratio of the bandwidths, as the platform overrides it"
        for name in ("bandwidth_gbytes_s", "weights_gbytes_s"):
            changes[name] = figures.value(name) * reached, how
    for name, stated_s in (("launch_us", spec.launch_s), ("dispatch_us", spec.dispatch_s)):
        if name in overrides:
            changes[name] = max(stated_s, LEAST_S), "as the platform overrides it"
    if not changes:
        return figures
    derived = {
        name: ("derived", f"{figures.provenance[name][1]}; {how}")
        for name, (_, how) in changes.items()
    }
    changed = figures.having({name: value for name, (value, _) in changes.items()})
    return replace(changed, provenance={**figures.provenance, **derived})
