"""The one tree of errors: each says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HetsimError(Exception):
    """Base of every error that hetsim raises on purpose.

    Parameters
    ----------
    what : str
        What is wrong, in one sentence without a final full stop.
    where : str, optional
        The place: ``file:line``, a node name, a platform name.
    hint : str, optional
        What to do about it: the nearest valid name, the flag to use.

    ``exit_code`` is what the command line ends with when this error reaches it.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        super().__init__(str(self))

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.what, self.where, self.hint)


def _rebuild(
    kind: type[HetsimError], what: str, where: str | None, hint: str | None
) -> HetsimError:
    return kind(what, where=where, hint=hint)


class UsageError(HetsimError):
    """An option or a name that does not exist, or options that contradict each other."""

    exit_code = 2


class PluginError(UsageError):
    """What another package adds cannot be used, or two packages add the same."""


class DeviceUnavailable(UsageError):
    """What a device needs is not on this machine."""


class InvalidInput(HetsimError):
    """A file or a value given by the user cannot be used."""

    exit_code = 3


class ModelError(InvalidInput):
    """The model file is missing, broken, or outside what the installed runtime can read."""


class UnboundDimension(ModelError):
    """A symbolic dimension is still unknown where a number is needed."""


class PlatformError(InvalidInput):
    """A device or platform description is broken."""


class RequestError(InvalidInput):
    """The arrays given to ``run`` do not fit the model's inputs."""


class PlanError(InvalidInput):
    """A plan or partition breaks a rule of its kind, or does not belong to the problem."""


class Infeasible(HetsimError):
    """No plan exists under the stated conditions."""

    exit_code = 4


class UnsupportedNode(Infeasible):
    """A node that must run somewhere runs nowhere that is allowed."""


class OutOfMemory(Infeasible):
    """Weights and live activations do not fit a device.

    Parameters
    ----------
    device : int, optional
        Index of the device, where a plan was tried.
    over_bytes : int
        What it would have needed beyond what it holds. Both stay in this process.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        device: int | None = None,
        over_bytes: int = 0,
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.device = device
        self.over_bytes = over_bytes


class ObjectiveMissed(HetsimError):
    """The plan is valid but misses the objective that the user set."""

    exit_code = 5


class ExecutionError(HetsimError):
    """A device failed while it ran its part of a plan, or did not answer in time."""


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return a hint that names the closest of `choices`, or lists them where none is close.

    >>> nearest("latop", ["laptop", "workstation"])
    "did you mean 'laptop'?"
    """
    ordered = sorted(choices)
    close = difflib.get_close_matches(name, ordered, n=1, cutoff=0.6)
    if close:
        return f"did you mean '{close[0]}'?"
    if not ordered:
        return "there is none to choose from"
    shown = ", ".join(ordered[:12])
    return f"choose from: {shown}" + (", ..." if len(ordered) > 12 else "")
