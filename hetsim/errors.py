"""Tree of errors: each states the fault, its place, and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar


@dataclass(eq=False, repr=False)
class HetsimError(Exception):
    """Base of every error that hetsim raises on purpose.

    Details of an error for programs are attributes, which classes below add as keywords; unknown
    ones have their defaults. All of it goes with the error to other processes.

    Attributes
    ----------
    what : str
        Fault, in one sentence without a final full stop.
    where : str, optional
        Place: ``file:line``, a node name, a platform name.
    hint : str, optional
        Remedy: the nearest valid name, the flag to use.
    key : tuple of str
        For an error in a value that may be from a file: the keys to it in the file, from the top.

    ``exit_code`` is the exit code of the command line for this error.
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
    """Unknown option or name, or options that contradict each other."""

    exit_code = 2


class PluginError(UsageError):
    """Plugin that cannot be used, or two plugins of the same name."""


@dataclass(eq=False, repr=False)
class NotInstalled(UsageError):
    """Package that an option needs and that is not installed.

    Attributes
    ----------
    package : str
    """

    package: str = field(default="", kw_only=True)


@dataclass(eq=False, repr=False)
class DeviceUnavailable(UsageError):
    """Driver, library or hardware that a device needs and this machine lacks.

    Attributes
    ----------
    device : str
    """

    device: str = field(default="", kw_only=True)


@dataclass(eq=False, repr=False)
class InvalidInput(HetsimError):
    """File or value from the user that cannot be used.

    Attributes
    ----------
    missing : bool
        Whether the file or name does not exist: the exit code is then that of ``UsageError``.
    """

    exit_code = 3

    missing: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        HetsimError.__post_init__(self)
        if self.missing:
            vars(self)["exit_code"] = UsageError.exit_code


class ModelError(InvalidInput):
    """Model file that is missing, broken, or not readable by the installed runtime."""


class NoKernel(ModelError):
    """Op of the model without a CPU kernel in ONNX Runtime for these types."""


@dataclass(eq=False, repr=False)
class UnboundDimension(ModelError):
    """Symbolic dimension without a value where a number is needed.

    Attributes
    ----------
    dims : tuple of str
        Names to bind; empty if the unknown dimensions have none.
    """

    dims: tuple[str, ...] = field(default=(), kw_only=True)


class PlatformError(InvalidInput):
    """Broken description of a device or platform."""


class WorkloadError(InvalidInput):
    """Workload, request trace or deployment that cannot be used."""


class SweepError(InvalidInput):
    """Grid or output folder of a sweep that cannot be used."""


class RequestError(InvalidInput):
    """Input arrays that do not fit the model's inputs."""


class PlanError(InvalidInput):
    """Plan that breaks a rule, cannot be read, or belongs to another problem."""


@dataclass(eq=False, repr=False)
class PartitionError(PlanError):
    """Groups that break a rule of partitions.

    Attributes
    ----------
    complaints : tuple of str
        Every broken rule, and its place.
    cycle : tuple of int
        Groups that wait for each other, each for the one before it; empty without a cycle.
    """

    complaints: tuple[str, ...] = field(default=(), kw_only=True)
    cycle: tuple[int, ...] = field(default=(), kw_only=True)


class ArtifactError(InvalidInput):
    """Compiled subgraph that is damaged, for another device, or unsafe to open."""


class Infeasible(HetsimError):
    """No plan exists, or none was found, under the given conditions."""

    exit_code = 4


@dataclass(eq=False, repr=False)
class UnsupportedNode(Infeasible):
    """Node that no allowed device can run.

    Attributes
    ----------
    nodes : tuple of str
        Names of the nodes, in graph order.
    ops : tuple of str
        Their op types, each once.
    devices : tuple of str
        Devices that refused.
    """

    nodes: tuple[str, ...] = field(default=(), kw_only=True)
    ops: tuple[str, ...] = field(default=(), kw_only=True)
    devices: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(eq=False, repr=False)
class OutOfMemory(Infeasible):
    """Weights and live activations that exceed a device's memory.

    Attributes
    ----------
    device : str, optional
        First device with too little memory; None if no single device is the cause.
    needed_bytes, held_bytes : int
        Bytes that the plan needs there, and its capacity; both 0 without a device.
    """

    device: str | None = field(default=None, kw_only=True)
    needed_bytes: int = field(default=0, kw_only=True)
    held_bytes: int = field(default=0, kw_only=True)

    @property
    def over_bytes(self) -> int:
        """Bytes needed beyond the device's capacity."""
        return self.needed_bytes - self.held_bytes


@dataclass(eq=False, repr=False)
class NoRoute(Infeasible):
    """Two devices without a link between them that a tensor must move between.

    Attributes
    ----------
    source, target : str
        Devices.
    """

    source: str = field(default="", kw_only=True)
    target: str = field(default="", kw_only=True)


@dataclass(eq=False, repr=False)
class NoReplacement(Infeasible):
    """Lost device whose subgraphs cannot be planned on the remaining devices.

    Attributes
    ----------
    device : str
    """

    device: str = field(default="", kw_only=True)


@dataclass(eq=False, repr=False)
class ObjectiveMissed(HetsimError):
    """Valid plan that misses the user's target.

    Attributes
    ----------
    objective : "latency" or "throughput"
    target_s, reached_s : float
        Seconds, or seconds per request, of the target and of the plan.
    """

    exit_code = 5

    objective: str = field(default="latency", kw_only=True)
    target_s: float = field(default=0.0, kw_only=True)
    reached_s: float = field(default=0.0, kw_only=True)


class Undecided(HetsimError):
    """Objective that the simulated requests show neither met nor missed."""

    exit_code = 6


class CertificateRefuted(HetsimError):
    """Certificate with a claim that does not hold."""

    exit_code = 5


class ExecutionError(HetsimError):
    """Device failure during a run, or a missing resource that the run needs."""


@dataclass(eq=False, repr=False)
class OutOfRoom(ExecutionError):
    """Disk or memory of this machine exhausted; the request itself may be valid.

    Attributes
    ----------
    short_of : str
        ``disk``, ``memory``, ``threads``, or ``files`` open at a time.
    needed_bytes : int
        Requested bytes; 0 if unknown.
    """

    short_of: str = field(default="memory", kw_only=True)
    needed_bytes: int = field(default=0, kw_only=True)


@dataclass(eq=False, repr=False)
class DeviceLost(ExecutionError):
    """Device that died during a run, with the values it held.

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
    """Operation that did not finish within its timeout.

    Attributes
    ----------
    devices : tuple of str
        Devices that did not answer; empty if unknown.
    timeout_s : float
    """

    devices: tuple[str, ...] = field(default=(), kw_only=True)
    timeout_s: float = field(default=0.0, kw_only=True)


class Cancelled(ExecutionError):
    """Request that its caller cancelled."""


@dataclass(eq=False, repr=False)
class TooManyInFlight(ExecutionError):
    """More requests than a session may have in flight.

    Attributes
    ----------
    max_in_flight : int
    """

    max_in_flight: int = field(default=0, kw_only=True)


@dataclass(eq=False, repr=False)
class OutputsDiffer(ExecutionError):
    """Outputs of a run that differ from those of the whole model.

    Attributes
    ----------
    mismatches : tuple of str
        For each output its name and its difference.
    """

    mismatches: tuple[str, ...] = field(default=(), kw_only=True)


class ClusterError(ExecutionError):
    """Ray that cannot be started or joined, or whose nodes run other versions."""


@dataclass(eq=False, repr=False)
class NotOffered(Infeasible, ClusterError):
    """Device that no node of the cluster offers.

    Attributes
    ----------
    devices : tuple of str
    """

    devices: tuple[str, ...] = field(default=(), kw_only=True)


class NonconformingDevice(HetsimError):
    """Device that breaks a rule that the rest of hetsim relies on."""


def all_refused(
    what: str,
    refusals: Sequence[Infeasible],
    *,
    where: str | None = None,
    hint: str | None = None,
) -> Infeasible:
    """Return the error that stands for `refusals`, one for each failed alternative.

    UnsupportedNode or OutOfMemory if all are of that class, with their joint content: every refused
    node, or the device that lacks the fewest bytes. Otherwise Infeasible.
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
"""Maximum number of choices that a hint lists."""


_COMPARED, _COMPARED_LENGTH = 1000, 200
"""Maximum number of choices compared letter by letter, and maximum letters of one of them."""


def closest(name: str, choices: Iterable[str]) -> str:
    """Return a hint that names the closest of `choices`; empty if none is close."""
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
    """Return a hint that names the closest of `choices`, or lists them if none is close.

    >>> nearest("latop", ["laptop", "workstation"])
    "did you mean 'laptop'?"
    """
    ordered = sorted(set(choices))
    meant = closest(name, ordered)
    if meant:
        return meant
    if not ordered:
        return "no valid name exists"
    shown = ", ".join(ordered[:SHOWN])
    more = len(ordered) - SHOWN
    return f"choose from: {shown}" + (f" and {more} more" if more > 0 else "")
