"""Devices by the backend that their description names: hetsim's own, or another package's."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from hetsim.core.plugins import asked, load_plugin, misfit, plugin_names
from hetsim.device.device import GROUP as GROUP
from hetsim.device.device import Device, SimulatedDevice
from hetsim.device.hooks import unfit_class, watched
from hetsim.errors import PluginError, UsageError, nearest
from hetsim.graph.reading.extension import Extension
from hetsim.hardware.spec import DeviceSpec, Platform

SIMULATED = "simulated"
THREADED = 1e-5
"""How far sums may be off that several threads add up in parts."""


def backends() -> tuple[str, ...]:
    """Names that ``backend:`` of a device may have, sorted."""
    return tuple(sorted({SIMULATED, *plugin_names(GROUP)}))


def device_class(backend: str) -> type[Device]:
    """Return the class of a backend."""
    if backend == SIMULATED:
        return SimulatedDevice
    try:
        found = load_plugin(GROUP, backend)
    except KeyError:
        raise UsageError(
            f"no device backend '{backend}'",
            hint=f"{nearest(backend, backends())}, or install the package that adds it",
        ) from None
    if not (isinstance(found, type) and issubclass(found, Device)):
        raise PluginError(
            f"'{backend}' of {GROUP} is {found!r}, not a subclass of hetsim.device.device.Device"
        )
    unfit = unfit_class(found)
    if unfit is not None:
        wanted = "a number from 0 on" if unfit == "tolerance" else "True or False"
        raise misfit(GROUP, backend, unfit, getattr(found, unfit), wanted)
    return found


def make_device(
    name: str,
    spec: DeviceSpec,
    ids: Sequence[str] = ("0",),
    extensions: Sequence[Extension] = (),
) -> Device:
    """Return the device of `spec` called `name`, with those of `extensions` that it takes."""
    kind = device_class(spec.backend)
    if kind is SimulatedDevice:
        device: Device = kind(name, spec, ids)
    else:
        made = asked(GROUP, spec.backend, "__init__", lambda: kind(name, spec, ids))
        device = watched(made, spec.backend)
    for extension in extensions:
        with suppress(UsageError):
            device.add_extension(extension)
    return device


def tolerance(spec: DeviceSpec) -> float:
    """Return how far outputs of its subgraphs may be from those of ONNX Runtime's CPU kernels."""
    own = device_class(spec.backend).tolerance
    return own if spec.threads == 1 else max(own, THREADED)


def platform_devices(platform: Platform, extensions: Sequence[Extension] = ()) -> dict[str, Device]:
    """Return every device of a platform by name; ``gpu.0`` and ``gpu.1`` know each other's ids."""
    ids: dict[str, list[str]] = {}
    for name in platform.devices:
        base, dot, number = name.rpartition(".")
        ids.setdefault(base if dot else name, []).append(number if dot else "0")
    made: dict[str, Device] = {}
    for name, spec in platform.devices.items():
        base, dot, _ = name.rpartition(".")
        known = tuple(ids[base if dot else name])
        made[name] = make_device(name, spec, known, extensions)
    return made
