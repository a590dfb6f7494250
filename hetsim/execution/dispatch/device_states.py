"""Devices of a session: versions, failures, recovery."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

from hetsim.core.process import begun
from hetsim.core.room import out_of_room
from hetsim.errors import ExecutionError, HetsimError, NoReplacement
from hetsim.execution.dispatch.dispatcher import Dispatcher
from hetsim.execution.dispatch.transport import Loaded, Post, Transport
from hetsim.execution.program import Program
from hetsim.workload.failure import Failure


@dataclass(frozen=True, slots=True)
class Recovery:
    """Failure of a device that was recovered from.

    Attributes
    ----------
    device : str
    kind : str
        ``died``, ``hang``, ``out of memory``, ``kernel`` or ``lost input``.
    at_s : float
        Time of detection, in seconds since the devices were ready.
    seconds : float
        Seconds from then until the lost work could continue.
    requests : tuple of int
        Requests that lost work or values.
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
class RecoveryPolicy:
    """Rules of device failure and retries.

    `timeout_s` applies to compiling, and to a request without its own. A device that needs longer
    than `hang_s` for one call counts as dead; None: if one call has taken half the timeout of a
    request that timed out. It is given up after `max_restarts`. A step that raises in `attempts`
    calls fails its request, and so do more than `max_losses` devices during its calls.
    """

    timeout_s: float
    hang_s: float | None = None
    max_restarts: int = 3
    attempts: int = 2
    max_losses: int = 2


Replan = Callable[[tuple[str, ...]], Program]
"""Function from the names of lost devices to the program for the remaining ones."""

Status = Literal["off", "away", "starting", "up", "gone"]
"""State of a device; one that is away starts again after a while, one that is gone does not."""


@dataclass(frozen=True, slots=True)
class Replanned:
    """Program for the remaining devices, or the reason why there is none."""

    lost: tuple[str, ...]
    program: Program | None
    error: HetsimError | None = None


@dataclass(slots=True)
class _Device:
    status: Status = "off"
    incarnation: int = 0
    version: int = -1
    restarts: int = 0
    process: int = 0


@dataclass(slots=True)
class _Outage:
    kind: str
    began: float
    requests: set[int] = field(default_factory=set)


@dataclass(slots=True)
class DeviceStates:
    """States of devices: restarts lost ones, and replans work without them."""

    _target: Program
    _dispatcher: Dispatcher
    _transport: Transport
    _post: Post
    _policy: RecoveryPolicy
    _replan: Replan | None
    _later: Callable[[float, object], None]
    _version: int = 0
    _devices: dict[str, _Device] = field(default_factory=dict)
    _verdicts: dict[str, Failure] = field(default_factory=dict)
    _outages: dict[str, _Outage] = field(default_factory=dict)
    _ready_at: float | None = None
    recoveries: list[Recovery] = field(default_factory=list)
    broken: HetsimError | None = None

    def __post_init__(self) -> None:
        self._devices = {device: _Device() for device in self._target.code}

    @property
    def ready(self) -> bool:
        """Whether every device has been up once."""
        return self._ready_at is not None

    def open(self) -> None:
        """Start all devices."""
        for device in self._target.code:
            self._load(device)

    def incarnation(self, device: str) -> int:
        """Return the number of losses of a device; messages of earlier incarnations are ignored."""
        return self._devices[device].incarnation

    def silent(self) -> tuple[str, ...]:
        """Devices that are still starting, or away."""
        devices = tuple(self._devices.items())
        return tuple(name for name, d in devices if d.status in ("away", "starting"))

    def expect(self, failure: Failure) -> None:
        """Record whether a device with an injected failure returns after a while, or never."""
        self._verdicts[failure.device] = failure

    def processes(self) -> dict[str, int]:
        """Return the process id of each running device."""
        # Copied at once, as callers are on other threads.
        devices = tuple(self._devices.items())
        return {name: device.process for name, device in devices if device.status == "up"}

    def up(self) -> tuple[str, ...]:
        """Devices that accept messages."""
        return tuple(name for name, d in self._devices.items() if d.status in ("up", "starting"))

    def loaded(self, event: Loaded) -> None:
        """Record that a device is ready, or failed to load. Raises if it never started before."""
        state = self._devices.get(event.device)
        if state is None or event.incarnation != state.incarnation or state.status == "gone":
            return
        if event.error is not None:
            if not self.ready:
                raise event.error
            self.lose(event.device, "died", event.error, values_too=True)
            return
        if event.version != self._version:
            return
        state.status, state.version, state.process = "up", event.version, event.process
        if self._version == self._dispatcher.version:
            self._dispatcher.restore(event.device)
            self._close_outage(event.device, "restarted")
        if all(self._devices[device].version == self._version for device in self._target.code):
            if self._version != self._dispatcher.version:
                self._switch()
            if self._ready_at is None:
                self._ready_at = time.monotonic()

    def lose(self, device: str, kind: str, error: ExecutionError, *, values_too: bool) -> None:
        """Mark a device as dead: restart it, or give it up."""
        state = self._devices[device]
        now = time.monotonic()
        touched = self._dispatcher.lose(device, values_too=values_too)
        self._transport.discard(device)
        state.incarnation += 1
        state.version = -1
        outage = self._outages.setdefault(device, _Outage(kind, now))
        outage.requests.update(touched)
        verdict = self._verdicts.pop(device, None)
        if device not in self._target.code:
            # Left over from an older version of the program, which no longer uses it.
            state.status = "off"
            self._outages.pop(device)
        elif state.restarts >= self._policy.max_restarts or (
            verdict is not None and verdict.back_s == float("inf")
        ):
            self._give_up(device, error)
        else:
            state.restarts += 1
            state.status = "starting"
            stays_away = 0.0 if verdict is None else verdict.for_s or 0.0
            if stays_away:
                state.status = "away"
                again = partial(self.restart, device, state.incarnation)
                self._later(now + stays_away, again)
            else:
                self._load(device)

    def restart(self, device: str, incarnation: int) -> None:
        """Restart a device when due, unless it was lost again."""
        if self._devices[device].incarnation == incarnation:
            self._load(device)

    def replanned(self, event: Replanned) -> None:
        """Let the devices compile their new subgraphs."""
        if event.lost != self._lost():
            return
        if event.program is None:
            self.broken = event.error
            return
        self._target = replace(event.program, since=self._dispatcher.version)
        self._version += 1
        for device in self._target.code:
            if self._devices.setdefault(device, _Device()).status != "away":
                self._load(device)

    def repeated(self, device: str, kind: str, began: float, request: int) -> None:
        """Record that a step succeeded when repeated."""
        self._note(device, kind, began, (request,), "repeated")

    def _load(self, device: str) -> None:
        state = self._devices[device]
        if state.status != "up":
            state.status = "starting"
        self._transport.load(device, state.incarnation, self._version, self._target)

    def _give_up(self, device: str, error: ExecutionError) -> None:
        self._devices[device].status = "gone"
        lost = self._lost()
        if self._replan is None:
            self.broken = NoReplacement(
                f"the device was lost, and no other device can replace it: {error.what}",
                where=f"device '{device}'",
                hint=(
                    "run from the model instead of the compiled plan, which cannot be planned again"
                ),
                device=device,
            )
            return
        replan = self._replan

        def work() -> None:
            try:
                self._post(Replanned(lost, replan(lost)))
            except HetsimError as refusal:
                self._post(Replanned(lost, None, refusal))
            except Exception as fault:
                said = f"re-planning failed: {type(fault).__name__}: {fault}"
                unexpected = out_of_room(fault) or ExecutionError(said)
                self._post(Replanned(lost, None, unexpected))

        begun(threading.Thread(target=work, name="hetsim re-plan", daemon=True))

    def _switch(self) -> None:
        old = self._dispatcher.version
        requests: Sequence[int] = tuple(self._dispatcher.flights)
        target = self._target
        self._dispatcher.switch(
            self._version, target.steps, target.outputs, target.replicas, target.deal
        )
        for name, state in self._devices.items():
            if state.status != "up":
                continue
            if name in self._target.code:
                for request in requests:
                    self._transport.forget(name, old, request)
                self._dispatcher.restore(name)
            elif not self._dispatcher.running_on(name):
                self._dispatcher.lose(name, values_too=False)
                self._transport.discard(name)
                state.status, state.version = "off", -1
                state.incarnation += 1
        for name in tuple(self._outages):
            self._close_outage(name, "replanned")

    def _lost(self) -> tuple[str, ...]:
        return tuple(name for name, state in self._devices.items() if state.status == "gone")

    def _close_outage(self, device: str, how: str) -> None:
        outage = self._outages.pop(device, None)
        if outage is not None:
            self._note(device, outage.kind, outage.began, sorted(outage.requests), how)

    def _note(
        self, device: str, kind: str, began: float, requests: Sequence[int], how: str
    ) -> None:
        now = time.monotonic()
        since = began if self._ready_at is None else self._ready_at
        self.recoveries.append(
            Recovery(device, kind, began - since, now - began, tuple(requests), how)
        )
