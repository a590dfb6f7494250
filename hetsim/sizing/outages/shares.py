"""Which share of its time each device is up: as asked, by mean times, or by its file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from fractions import Fraction

from hetsim.errors import UsageError, nearest
from hetsim.hardware.availability import DeviceAvailability, of_times
from hetsim.hardware.spec import Platform, numbered
from hetsim.workloads.failing import Failing

MEAN_TIMES = "of its mean times to failure and repair"


def shares_of(
    platform: Platform, given: Mapping[str, Fraction], failing: Failing | None
) -> dict[str, DeviceAvailability]:
    """Return what is known of each device.

    What is `given`, by name, kind or pattern, goes first, a name before a pattern; then mean times;
    then what the device's file says.

    Raises UsageError where a name is of no device.
    """
    found = {
        name: spec.availability
        for name, spec in platform.devices.items()
        if spec.availability is not None
    }
    devices = tuple(platform.devices)
    for name, (works_s, down_s) in (failing.cycles_s(devices) if failing else {}).items():
        found[name] = DeviceAvailability(of_times(works_s, down_s), MEAN_TIMES)
    for pattern in sorted(given, key=lambda one: one in platform.devices):
        fits = [name for name in devices if fnmatchcase(name, pattern)]
        fits = fits or list(numbered(pattern, devices))
        if not fits:
            raise UsageError(
                f"an availability of '{pattern}', which the platform does not have",
                hint=nearest(pattern, devices),
            )
        for name in fits:
            found[name] = DeviceAvailability(given[pattern])
    return found


def check_known(known: Mapping[str, DeviceAvailability], needed: Iterable[str]) -> None:
    """Raise UsageError where nothing is known of a device that matters."""
    unknown = [name for name in needed if name not in known]
    if unknown:
        raise UsageError(
            f"nothing says which share of its time is up: {', '.join(unknown)}",
            hint=f"give --available {unknown[0]}=0.995, or --mtbf and --mttr, or write "
            "availability: with its source in the device's file",
        )
