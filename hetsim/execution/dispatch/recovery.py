"""What a failure cost: the record, and the rules by which devices get another chance."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recovery:
    """One failure that was got over.

    Attributes
    ----------
    device : str
    kind : str
        ``died``, ``hang``, ``out of memory``, ``kernel`` or ``lost input``.
    at_s : float
        When it was noticed, in seconds since the devices were ready.
    seconds : float
        From then until the lost work could go on.
    requests : tuple of int
        Those that lost work or values.
    how : str
        ``restarted``, ``replanned`` or ``repeated``.
    """

    device: str
    kind: str
    at_s: float
    seconds: float
    requests: tuple[int, ...]
    how: str


@dataclass(frozen=True, slots=True)
class Policy:
    """When a device counts as failed, and how often it is tried again.

    Attributes
    ----------
    timeout_s : float
        Of compiling on a device, and of a request that has no timeout of its own.
    hang_s : float or None
        A device that needs longer for one call is taken for dead. None: where one call has
        taken half the timeout of a request that ran out of it.
    max_restarts : int
        Of one device; one that fails more often is given up.
    attempts : int
        A step that raises as often has failed its request.
    max_losses : int
        Device failures during its calls that a request survives; with the next it is lost.
    """

    timeout_s: float
    hang_s: float | None = None
    max_restarts: int = 3
    attempts: int = 2
    max_losses: int = 2
