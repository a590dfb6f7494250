"""Failures of devices during a workload: at given times, and at random."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Literal, TypeAlias

from hetsim.core import checks
from hetsim.core.checks import instance, number, one_of, sequence
from hetsim.core.units import parse_seconds
from hetsim.errors import UsageError, WorkloadError, nearest
from hetsim.hardware.spec import numbered, standing_for
from hetsim.workload.arrivals import Numbers

Kind = Literal["kill", "hang"]
What = Literal["stop", "known", "back"]
Moment = tuple[float, int, What, "Failure"]
"""Seconds, order among those of one instant, kind of event, and its failure."""

TIME = "write a number and h, min, s, ms, us or ns: 3ms"
_FORM = "write 'kill DEVICE at 3ms', 'kill DEVICE at 3ms for 5ms' or 'hang DEVICE at 3ms for 5ms'"


@dataclass(frozen=True, slots=True)
class Failure:
    """Device that stops at a given time.

    A *kill* is immediate, with all its values; the device is back after `for_s`, empty, or never. A
    *hang* stops all answers: after `for_s` the device counts as dead, permanently.
    """

    device: str
    at_s: float
    kind: Kind = "kill"
    for_s: float | None = None

    @property
    def known_s(self) -> float:
        """Time when the failure is detected."""
        return self.at_s + (self.for_s or 0.0) if self.kind == "hang" else self.at_s

    @property
    def back_s(self) -> float:
        """Time when the device is back; infinite for never."""
        return math.inf if self.kind == "hang" or self.for_s is None else self.at_s + self.for_s

    def __str__(self) -> str:
        lasts = "" if self.for_s is None else f" for {self.for_s * 1e3:g}ms"
        return f"{self.kind} {self.device} at {self.at_s * 1e3:g}ms{lasts}"


def parse_failures(text: str) -> tuple[Failure, ...]:
    """Return the failures in a comma-separated text.

    >>> parse_failures("kill gpu.0 at 3ms, hang npu at 1s for 20ms")[1].for_s
    0.02

    Raises
    ------
    UsageError
        If the text is not of that form.
    """
    return tuple(_parsed(part.strip(), text) for part in text.split(","))


def _parsed(part: str, text: str) -> Failure:
    words = part.split()
    form = len(words) in (4, 6) and words[2] == "at" and (len(words) == 4 or words[4] == "for")
    if not form:
        raise UsageError(f"cannot read '{part}' as a failure", where=f"'{text}'", hint=_FORM)
    if words[0] not in ("kill", "hang"):
        raise UsageError(
            f"unknown failure '{words[0]}'",
            where=f"'{text}'",
            hint=nearest(words[0], ("kill", "hang")),
        )
    kind: Kind = "kill" if words[0] == "kill" else "hang"
    lasts = _seconds(words[5], text) if len(words) == 6 else None
    return Failure(words[1], _seconds(words[3], text), kind, lasts)


def _seconds(word: str, text: str) -> float:
    found = parse_seconds(word)
    if found is None:
        raise UsageError(f"'{word}' is not a time", where=f"'{text}'", hint=TIME)
    return found


def check_failures(failures: Iterable[Failure], devices: Sequence[str]) -> tuple[Failure, ...]:
    """Return the failures by time, each of an existing device; ``gpu`` is the first ``gpu.0``.

    Raises
    ------
    UsageError
        For an unknown device, an invalid time, or overlapping failures of a device.
    """
    found: list[Failure] = []
    for failure in failures:
        name = failure.device
        checks.text(name, "the device of a failure")
        checks.text(failure.kind, "the kind of a failure")
        checks.real(failure.at_s, "when a failure begins")
        if failure.for_s is not None:
            checks.real(failure.for_s, "how long a failure lasts")
        if name not in devices:
            alike = numbered(name, devices)
            if not alike:
                raise UsageError(
                    f"there is no device '{name}' to fail", hint=nearest(name, devices)
                )
            name = alike[0]
        times = (failure.at_s, 0.0 if failure.for_s is None else failure.for_s)
        if not all(math.isfinite(time) and time >= 0 for time in times):
            raise UsageError(f"'{failure}' has an invalid time", hint="use times from 0 on")
        if failure.kind not in ("kill", "hang"):
            raise UsageError(
                f"unknown failure '{failure.kind}'",
                hint=nearest(failure.kind, ("kill", "hang")),
            )
        if failure.kind == "hang" and failure.for_s is None:
            raise UsageError(
                f"'{failure}' does not state when the hang is detected",
                hint="add 'for' and a time: 'hang gpu at 3ms for 5ms'",
            )
        found.append(Failure(name, failure.at_s, failure.kind, failure.for_s))
    found.sort(key=lambda failure: (failure.at_s, devices.index(failure.device)))
    until: dict[str, Failure] = {}
    for failure in found:
        before = until.get(failure.device)
        if before is not None and before.back_s > failure.at_s:
            raise UsageError(
                (f"at '{failure}' the device is already down: '{before}'"),
                hint="give one failure at a time",
            )
        until[failure.device] = failure
    return tuple(found)


def moments(failures: Iterable[Failure]) -> Iterator[Moment]:
    """Yield the times at which devices stop, are detected, and are back, in order.

    `failures` are by time, possibly infinite; they are read only as far as they have begun.
    """
    due: list[Moment] = []
    count = 0
    for failure in failures:
        while due and due[0][0] <= failure.at_s:
            yield heappop(due)
        heappush(due, (failure.at_s, count, "stop", failure))
        heappush(due, (failure.known_s, count + 1, "known", failure))
        if math.isfinite(failure.back_s):
            heappush(due, (failure.back_s, count + 2, "back", failure))
        count += 3
    while due:
        yield heappop(due)


Times = Literal["exponential", "constant"]
TIMES: tuple[Times, ...] = ("exponential", "constant")

BLOCK = 256
"""Number of random numbers generated at a time."""

ByDevice: TypeAlias = float | Mapping[str, float]
"""Value for all devices, or by name; ``gpu`` stands for all of ``gpu.0``, ``gpu.1``, ..."""


@dataclass(frozen=True, slots=True)
class Failing:
    """Failures of devices: at given times, and at random.

    The mean times to failure and to repair (without loading) apply to all devices, or by name, in
    which case others do not fail; both are exponential or constant.
    """

    injected: tuple[Failure, ...] = ()
    mtbf_s: ByDevice | None = None
    mttr_s: ByDevice | None = None
    times: Times = "exponential"

    def __post_init__(self) -> None:
        sequence(instance("hetsim.workload.failure:Failure"))(self.injected, "injected")
        object.__setattr__(self, "injected", tuple(self.injected))
        one_of(*TIMES)(self.times, "times")
        for name in ("mtbf_s", "mttr_s"):
            given = getattr(self, name)
            each = given if isinstance(given, Mapping) else {"": given}
            for device, seconds in each.items():
                if seconds is not None:
                    number(above=0)(seconds, f"{name} of '{device}'" if device else name)
        if (self.mtbf_s is None) != (self.mttr_s is None):
            has, lacks = ("mttr_s", "mtbf_s") if self.mtbf_s is None else ("mtbf_s", "mttr_s")
            raise WorkloadError(f"{has} without {lacks}", hint=f"write {lacks}, too")

    @property
    def random(self) -> bool:
        """Whether any device fails at random."""
        return self.mtbf_s is not None

    def cycles_s(self, devices: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return mean times between failures and to repair of devices that fail at random.

        Raises
        ------
        UsageError
            For an unknown device, one that fails without a time to repair, or one with such a time
            that does not fail.
        """
        if self.mtbf_s is None or self.mttr_s is None:
            return {}
        between = _by_device(self.mtbf_s, devices, " for mtbf_s")
        repair = _by_device(self.mttr_s, devices, " for mttr_s")
        for name in between:
            if name not in repair:
                raise UsageError(
                    f"'{name}' has no repair time",
                    where="mttr_s",
                    hint=f"give a time for {name}, or one for all",
                )
        for name in self.mttr_s if isinstance(self.mttr_s, Mapping) else ():
            if not between.keys() & set(standing_for(name, devices, " for mttr_s")):
                raise UsageError(
                    f"'{name}' has no time between failures",
                    where="mtbf_s",
                    hint=f"give a time for {name}, or leave its repair time out",
                )
        return {name: (between[name], repair[name]) for name in between}

    def failures(self, devices: Sequence[str], seed: int) -> Iterator[Failure]:
        """Yield failures by time; infinitely many if some are random.

        A device's random times depend only on the seed and its name. Failures of a device that is
        down are skipped.

        Raises UsageError, at once, for an unknown device or an invalid time.
        """
        given = check_failures(self.injected, devices)
        sources: list[Iterator[Failure]] = [iter(given)]
        for name, (between_s, repair_s) in self.cycles_s(devices).items():
            sources.append(self._at_random(name, between_s, repair_s, seed))
        return _one_at_a_time(sources, devices)

    def _at_random(
        self, device: str, between_s: float, repair_s: float, seed: int
    ) -> Iterator[Failure]:
        numbers = Numbers(seed, "")
        now = 0.0
        for block in count():
            drawn = [[1.0, 1.0]] * BLOCK
            if self.times == "exponential":
                generator = numbers.generator(f"failures of {device}", block)
                drawn = generator.standard_exponential((BLOCK, 2)).tolist()
            for up, down in drawn:
                now += up * between_s
                yield Failure(device, now, "kill", down * repair_s)
                now += down * repair_s


def _one_at_a_time(
    sources: Sequence[Iterator[Failure]], devices: Sequence[str]
) -> Iterator[Failure]:
    until = dict.fromkeys(devices, -math.inf)
    order = {name: at for at, name in enumerate(devices)}
    for failure in heapq.merge(*sources, key=lambda one: (one.at_s, order[one.device])):
        if failure.at_s >= until[failure.device]:
            until[failure.device] = failure.back_s
            yield failure


def _by_device(given: ByDevice, devices: Sequence[str], where: str) -> dict[str, float]:
    if not isinstance(given, Mapping):
        return dict.fromkeys(devices, given)
    # Values for one device override those for its kind.
    found: dict[str, float] = {}
    for name in sorted(given, key=lambda name: name in devices):
        for device in standing_for(name, devices, where):
            found[device] = given[name]
    return {device: found[device] for device in devices if device in found}
