"""Which node of a Ray cluster takes the actor of a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetsim.errors import ExecutionError

RESOURCE_PREFIX = "hetsim_"
"""A node that offers ``hetsim_gpu`` takes the actor of device ``gpu``."""

_SHARE = 0.001
"""Of a node's resource an actor: it says where, and keeps nobody else out."""


def placement(devices: Sequence[str], offered: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return the custom resources that the actor of each device asks for.

    None, where no node offers a resource for any device: actors then go anywhere. `offered`
    is the sum over the nodes, by name.

    Raises
    ------
    ExecutionError
        Where some device has a resource and others have none: Ray would wait for ever.
    """
    if not any(name.startswith(RESOURCE_PREFIX) for name in offered):
        return {device: {} for device in devices}
    missing = [device for device in devices if not offered.get(RESOURCE_PREFIX + device)]
    if missing:
        names = ", ".join(f"'{RESOURCE_PREFIX}{device}'" for device in missing)
        raise ExecutionError(
            f"no node of the Ray cluster offers {names}",
            hint=f"start a node with --resources='{{\"{RESOURCE_PREFIX}{missing[0]}\": 1}}'",
        )
    return {device: {RESOURCE_PREFIX + device: _SHARE} for device in devices}
