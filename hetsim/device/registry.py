"""Devices by the backend that their description names: hetsim's own, or another package's."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.device.plugin import Device, SimulatedDevice
from hetsim.errors import PluginError, UsageError, nearest
from hetsim.hardware.spec import DeviceSpec, Platform
from hetsim.plugins import load_plugin, plugin_names

GROUP = "hetsim.devices"
SIMULATED = "simulated"


def backends() -> tuple[str, ...]:
    """Names that ``backend:`` of a device may have, sorted."""
    return tuple(sorted({SIMULATED, *plugin_names(GROUP)}))


def device_class(backend: str) -> type[Device]:
    """Return the class of a backend.

    Raises
    ------
    UsageError
        Where no installed package has it, with the nearest.
    PluginError
        Where two have it, or it cannot be imported or is no ``Device``.
    """
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
            f"'{backend}' of {GROUP} is {found!r}, not a subclass of hetsim.device.plugin.Device"
        )
    return found


def make_device(name: str, spec: DeviceSpec, ids: Sequence[str] = ("0",)) -> Device:
    """Return the device of `spec` called `name`; errors are those of its class too."""
    return device_class(spec.backend)(name, spec, ids)


def platform_devices(platform: Platform) -> dict[str, Device]:
    """Return every device of a platform by name; ``gpu.0`` and ``gpu.1`` know each other's ids."""
    ids: dict[str, list[str]] = {}
    for name in platform.devices:
        base, dot, number = name.rpartition(".")
        ids.setdefault(base if dot else name, []).append(number if dot else "0")
    made: dict[str, Device] = {}
    for name, spec in platform.devices.items():
        base, dot, _ = name.rpartition(".")
        made[name] = make_device(name, spec, tuple(ids[base if dot else name]))
    return made
