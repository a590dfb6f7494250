"""The one tree of errors: each says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar


@dataclass(eq=False, repr=False)
class HetsimError(Exception):
    """Base of every error that hetsim raises on purpose.

    What a program may want to know of an error is in attributes, which classes below add as
    keywords; those that are not known have their defaults. All of it goes with the error to
    other processes.

    Attributes
    ----------
    what : str
        What is wrong, in one sentence without a final full stop.
    where : str, optional
        The place: ``file:line``, a node name, a platform name.
    hint : str, optional
        What to do about it: the nearest valid name, the flag to use.
    key : tuple of str
        Of an error that is of what a file may say, where this is not known to come from one: the
        keys to it, from the top.

    ``exit_code`` is what the command line ends with when this error reaches it.
    """

    exit_code: ClassVar[int] = 1

    what: str
    where: str | None = field(default=None, kw_only=True)
    hint: str | None = field(default=None, kw_only=True)
    key: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        self.args = (str(self),)

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}; {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        known = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return _rebuild, (type(self), known.pop("what"), known)


def _rebuild(kind: type[HetsimError], what: str, known: dict[str, Any]) -> HetsimError:
    return kind(what, **known)


class UsageError(HetsimError):
    """An option or a name that does not exist, or options that contradict each other."""

    exit_code = 2


class PluginError(UsageError):
    """What another package adds cannot be used, or two packages add the same."""


@dataclass(eq=False, repr=False)
class NotInstalled(UsageError):
    """A package that an option needs is not on this machine.

    Attributes
    ----------
    package : str
    """

    package: str = field(default="", kw_only=True)


@dataclass(eq=False, repr=False)
class DeviceUnavailable(UsageError):
    """What a device needs is not on this machine.

    Attributes
    ----------
    device : str
    """

    device: str = field(default="", kw_only=True)


@dataclass(eq=False, repr=False)
class InvalidInput(HetsimError):
    """A file or a value given by the user cannot be used.

    Attributes
    ----------
    missing : bool
        The file or the name does not exist: then the exit code is that of ``UsageError``.
    """

    exit_code = 3

    missing: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        HetsimError.__post_init__(self)
        if self.missing:
            vars(self)["exit_code"] = UsageError.exit_code


class ModelError(InvalidInput):
    """The model file is missing, broken, or outside what the installed runtime can read."""


class NoKernel(ModelError):
    """ONNX Runtime's CPU has no kernel for an op of the model in these types."""


@dataclass(eq=False, repr=False)
class UnboundDimension(ModelError):
    """A symbolic dimension is still unknown where a number is needed.

    Attributes
    ----------
    dims : tuple of str
        Names to bind; empty where what is unknown has none.
    """

    dims: tuple[str, ...] = field(default=(), kw_only=True)


class PlatformError(InvalidInput):
    """A device or platform description is broken."""


class WorkloadError(InvalidInput):
    """A workload, a trace of requests or a deployment cannot be used."""


class SweepError(InvalidInput):
    """The grid of a sweep, or the folder that its rows are in, cannot be used."""


class RequestError(InvalidInput):
    """The arrays given to ``run`` do not fit the model's inputs."""


class PlanError(InvalidInput):
    """A plan breaks a rule of its kind, cannot be read, or does not belong to the problem."""


@dataclass(eq=False, repr=False)
class PartitionError(PlanError):
    """Groups break a rule of partitions.

    Attributes
    ----------
    complaints : tuple of str
        Every rule that is broken, and where.
    cycle : tuple of int
        Groups that wait for each other, each for the one before it; empty where none do.
    """

    complaints: tuple[str, ...] = field(default=(), kw_only=True)
    cycle: tuple[int, ...] = field(default=(), kw_only=True)


class ArtifactError(InvalidInput):
    """A file of a compiled subgraph is damaged, not meant for this device, or not safe to open."""


class Infeasible(HetsimError):
    """No plan exists, or none was found, under the stated conditions."""

    exit_code = 4


@dataclass(eq=False, repr=False)
class UnsupportedNode(Infeasible):
    """A node that must run somewhere runs nowhere that is allowed.

    Attributes
    ----------
    nodes : tuple of str
        Names of the nodes; where there are several, they stand in graph order.
    ops : tuple of str
        Their op types, each once.
    devices : tuple of str
        Devices that were asked.
    """

    nodes: tuple[str, ...] = field(default=(), kw_only=True)
    ops: tuple[str, ...] = field(default=(), kw_only=True)
    devices: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(eq=False, repr=False)
class OutOfMemory(Infeasible):
    """Weights and live activations do not fit a device.

    Attributes
    ----------
    device : str, optional
        The first that does not hold what it would have to; None where no one device is to blame.
    needed_bytes, held_bytes : int
        What the plan would need there, and what there is; both 0 without a device.
    """

    device: str | None = field(default=None, kw_only=True)
    needed_bytes: int = field(default=0, kw_only=True)
    held_bytes: int = field(default=0, kw_only=True)

    @property
    def over_bytes(self) -> int:
        """What is needed beyond what there is."""
        return self.needed_bytes - self.held_bytes


@dataclass(eq=False, repr=False)
class NoRoute(Infeasible):
    """No link joins two devices that a tensor would have to travel between.

    Attributes
    ----------
    source, target : str
        Devices.
    """

    source: str = field(default="", kw_only=True)
    target: str = field(default="", kw_only=True)


@dataclass(eq=False, repr=False)
class NoReplacement(Infeasible):
    """A device was lost, and what it ran cannot be planned again.

    Attributes
    ----------
    device : str
    """

    device: str = field(default="", kw_only=True)


@dataclass(eq=False, repr=False)
class ObjectiveMissed(HetsimError):
    """The plan is valid but misses the target that the user set.

    Attributes
    ----------
    objective : "latency" or "throughput"
    target_s, reached_s : float
        Seconds, or seconds a request, that were asked for, and that the plan takes.
    """

    exit_code = 5

    objective: str = field(default="latency", kw_only=True)
    target_s: float = field(default=0.0, kw_only=True)
    reached_s: float = field(default=0.0, kw_only=True)


class Undecided(HetsimError):
    """What was played says neither that an objective is met nor that it is missed."""

    exit_code = 6


class CertificateRefuted(HetsimError):
    """A certificate claims what is not so."""

    exit_code = 5


class ExecutionError(HetsimError):
    """A device failed while it ran its part of a plan, or what it needs to run is not there."""


@dataclass(eq=False, repr=False)
class OutOfRoom(ExecutionError):
    """The disk or the memory of this machine ended: what was asked for may well be right.

    Attributes
    ----------
    short_of : str
        ``disk``, ``memory``, ``threads``, or ``files`` open at a time.
    needed_bytes : int
        What was to be had; 0 where that is not known.
    """

    short_of: str = field(default="memory", kw_only=True)
    needed_bytes: int = field(default=0, kw_only=True)


@dataclass(eq=False, repr=False)
class DeviceLost(ExecutionError):
    """A device died, with what it held, while it was needed.

    Attributes
    ----------
    device : str
    kind : str
        ``died``, or ``out of memory``.
    """

    device: str = field(default="", kw_only=True)
    kind: str = field(default="died", kw_only=True)


@dataclass(eq=False, repr=False)
class TimedOut(ExecutionError):
    """What was asked for is not done in the time that was allowed.

    Attributes
    ----------
    devices : tuple of str
        Those that did not answer; empty where that is not known.
    timeout_s : float
    """

    devices: tuple[str, ...] = field(default=(), kw_only=True)
    timeout_s: float = field(default=0.0, kw_only=True)


class Cancelled(ExecutionError):
    """A request was given up by its caller."""


@dataclass(eq=False, repr=False)
class TooManyInFlight(ExecutionError):
    """A session has as many requests under way as it may.

    Attributes
    ----------
    max_in_flight : int
    """

    max_in_flight: int = field(default=0, kw_only=True)


@dataclass(eq=False, repr=False)
class OutputsDiffer(ExecutionError):
    """Outputs of a run are not those of the whole model.

    Attributes
    ----------
    mismatches : tuple of str
        By output: its name, and by how much it differs.
    """

    mismatches: tuple[str, ...] = field(default=(), kw_only=True)


class ClusterError(ExecutionError):
    """Ray cannot be started or joined, or its nodes do not fit this process."""


@dataclass(eq=False, repr=False)
class NotOffered(Infeasible, ClusterError):
    """No node of a cluster has a place for a device.

    Attributes
    ----------
    devices : tuple of str
    """

    devices: tuple[str, ...] = field(default=(), kw_only=True)


class NonconformingDevice(HetsimError):
    """A device breaks a rule that the rest of hetsim relies on."""


def all_refused(
    what: str,
    refusals: Sequence[Infeasible],
    *,
    where: str | None = None,
    hint: str | None = None,
) -> Infeasible:
    """Return what to raise where each of `refusals` is why one way is closed.

    UnsupportedNode or OutOfMemory where all are, with what they say together: every node that
    is refused, or the device that lacks the fewest bytes. Else Infeasible.
    """
    lacking = [one for one in refusals if isinstance(one, UnsupportedNode)]
    if refusals and len(lacking) == len(refusals):
        return UnsupportedNode(
            what,
            where=where,
            hint=hint,
            nodes=tuple(dict.fromkeys(name for one in lacking for name in one.nodes)),
            ops=tuple(dict.fromkeys(op for one in lacking for op in one.ops)),
            devices=tuple(dict.fromkeys(name for one in lacking for name in one.devices)),
        )
    full = [one for one in refusals if isinstance(one, OutOfMemory)]
    if refusals and len(full) == len(refusals):
        least = min(full, key=lambda one: (one.device is None, one.over_bytes))
        return OutOfMemory(
            what,
            where=where,
            hint=hint,
            device=least.device,
            needed_bytes=least.needed_bytes,
            held_bytes=least.held_bytes,
        )
    return Infeasible(what, where=where, hint=hint)


SHOWN = 16
"""How many choices a hint lists."""


_COMPARED, _COMPARED_LENGTH = 1000, 200
"""Choices that a name is compared with, letter by letter, and the letters of one that is."""


def closest(name: str, choices: Iterable[str]) -> str:
    """Return a hint that names the closest of `choices`; empty where none is close."""
    if len(name) > _COMPARED_LENGTH:
        return ""
    likely = [one for one in sorted(set(choices)) if len(one) <= 3 * len(name)]
    # What differs in few letters mostly has the same first ones.
    likely.sort(key=lambda one: -_same_letters(one, name))
    close = difflib.get_close_matches(name, likely[:_COMPARED], n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else ""


def _same_letters(one: str, other: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(other))


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return a hint that names the closest of `choices`, or lists them where none is close.

    >>> nearest("latop", ["laptop", "workstation"])
    "did you mean 'laptop'?"
    """
    ordered = sorted(set(choices))
    meant = closest(name, ordered)
    if meant:
        return meant
    if not ordered:
        return "there is none to choose from"
    shown = ", ".join(ordered[:SHOWN])
    more = len(ordered) - SHOWN
    return f"choose from: {shown}" + (f" and {more} more" if more > 0 else "")
