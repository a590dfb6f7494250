"""Devices that fail while a workload is played: at times that are given, and at random."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal, TypeAlias

from hetsim.core.checks import instance, number, one_of, sequence
from hetsim.errors import UsageError, WorkloadError
from hetsim.hardware.spec import standing_for
from hetsim.workload.failure import Failure, check_failures
from hetsim.workload.numbers import Numbers

Times = Literal["exponential", "constant"]
TIMES: tuple[Times, ...] = ("exponential", "constant")

BLOCK = 256
"""Random numbers that are drawn at a time."""

ByDevice: TypeAlias = float | Mapping[str, float]
"""For all devices alike, or by name; ``gpu`` stands for all of ``gpu.0``, ``gpu.1``, ..."""


@dataclass(frozen=True, slots=True)
class Failing:
    """Which devices fail, when, and for how long.

    Attributes
    ----------
    injected : tuple of Failure
        At times that are given.
    mtbf_s : float or mapping of str to float, optional
        Mean time that a device works until it fails. By name: others do not fail.
    mttr_s : float or mapping of str to float, optional
        Mean time until it is back; what it loads then is not in this.
    times : "exponential" or "constant"
        How both are distributed.
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
        """Whether some fail at random."""
        return self.mtbf_s is not None

    def cycles_s(self, devices: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return mean times between failures and to repair of devices that fail at random.

        Raises
        ------
        UsageError
            Where a name stands for no device, or one that fails has no time to repair.
        """
        if self.mtbf_s is None or self.mttr_s is None:
            return {}
        between = _by_device(self.mtbf_s, devices, " for mtbf_s")
        repair = _by_device(self.mttr_s, devices, " for mttr_s")
        for name in between:
            if name not in repair:
                raise UsageError(
                    f"nothing says how long '{name}' is down when it fails",
                    where="mttr_s",
                    hint=f"give a time for {name}, or one for all",
                )
        return {name: (between[name], repair[name]) for name in between}

    def failures(self, devices: Sequence[str], seed: int) -> Iterator[Failure]:
        """Return failures by time; without end where some are random.

        A device's random times follow from the seed and its name alone. What finds a device down
        is no failure.

        Raises UsageError, at once, where a device or a time makes no sense.
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
    # What is said of one device goes before what is said of its kind.
    found: dict[str, float] = {}
    for name in sorted(given, key=lambda name: name in devices):
        for device in standing_for(name, devices, where):
            found[device] = given[name]
    return {device: found[device] for device in devices if device in found}
