"""Whether what is served fits the memory of its devices: all at once, or by turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hetsim.core.units import format_bytes
from hetsim.errors import OutOfMemory
from hetsim.hardware.spec import Platform
from hetsim.problem.plan import Plan
from hetsim.simulation.clock.memory import resident_weights
from hetsim.simulation.clock.runs import peak_memory
from hetsim.simulation.clock.templates import tasks_of_plan
from hetsim.simulation.service.resolving import Resolved
from hetsim.workload.deployment import Instances


@dataclass(frozen=True, slots=True)
class Held:
    """What one model holds of each device.

    Attributes
    ----------
    weights : tuple of int [devices]
        Bytes of its weights there.
    whole : tuple of int [devices]
        These, and what its batches have live.
    copy : int
        Bytes of the weights that other devices than the host have: where a model is loaded on
        demand, or its replicas come and go, they wait in the host's memory.
    """

    weights: tuple[int, ...]
    whole: tuple[int, ...]
    copy: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What all that is served holds of each device.

    Attributes
    ----------
    held : tuple of Held [models]
    stays : tuple of int [devices]
        Bytes that are there all along.
    room : tuple of int [devices]
        Bytes in which the models that are loaded on demand take turns.
    """

    held: tuple[Held, ...]
    stays: tuple[int, ...]
    room: tuple[int, ...]


def held(resolved: Sequence[Resolved]) -> tuple[Held, ...]:
    """Return what each model holds of each device.

    Weights are there once a model, for all its instances, batch sizes and bindings; of a model that
    is autoscaled once an instance, for each replica is a process of its own. Beside them each
    instance keeps room for what its largest batch has live, so many times as it may have batches
    under way; of an instance without a limit that is one.

    Complexity: that of playing each plan once.
    """
    return tuple(_held(one) for one in resolved)


def check_together(resolved: Sequence[Resolved], platform: Platform) -> Memory:
    """Return what is held, where it fits.

    Raises OutOfMemory where a device has less than all models hold of it that are there all along,
    or than one that is loaded on demand holds beside them; the first such device.
    """
    each = held(resolved)
    host = resolved[0].problem.host
    stays, rooms = [], []
    for p, (name, spec) in enumerate(platform.devices.items()):
        there = {
            one.served.model: row.whole[p]
            for one, row in zip(resolved, each, strict=True)
            if p == host or not one.on_demand
        }
        if p == host:
            for one, row in zip(resolved, each, strict=True):
                if one.on_demand or one.served.autoscaling:
                    there[f"{one.served.model} to be loaded from there"] = row.copy
        needed = sum(there.values())
        if needed > spec.memory_bytes:
            raise _refused(name, spec.memory_bytes, needed, "together", there, turns=p != host)
        for one, row in zip(resolved, each, strict=True):
            if not one.on_demand or p == host:
                continue
            alone = needed + row.whole[p]
            if row.whole[p] and alone > spec.memory_bytes:
                parts = {**there, one.served.model: row.whole[p]}
                raise _refused(name, spec.memory_bytes, alone, "at once", parts, turns=False)
        stays.append(needed)
        rooms.append(spec.memory_bytes - needed)
    return Memory(each, tuple(stays), tuple(rooms))


def _refused(
    name: str, has: int, needed: int, how: str, parts: dict[str, int], *, turns: bool
) -> OutOfMemory:
    each = ", ".join(f"{model} {format_bytes(size)}" for model, size in parts.items() if size)
    hint = "give models devices: of their own, fewer instances, or smaller batches"
    if turns:
        hint += "; with loading: on_demand (--loading) they take turns"
    return OutOfMemory(
        f"what is served needs {format_bytes(needed)} ({needed} bytes) {how} and it has "
        f"{format_bytes(has)} ({has} bytes): {each}",
        where=f"device '{name}'",
        hint=hint,
        device=name,
        needed_bytes=needed,
        held_bytes=has,
    )


@dataclass(frozen=True, slots=True)
class InstanceHeld:
    """What one instance of a model holds, in bytes of the graph's own types.

    Attributes
    ----------
    constants : tuple of mapping of str to int [devices]
        Weights by name, which other instances of the model share.
    live : tuple of int [devices]
        What all its batches have live at most.
    """

    constants: tuple[dict[str, int], ...]
    live: tuple[int, ...]


def weights_of(rows: Sequence[Sequence[Plan]]) -> tuple[dict[str, int], ...]:
    """Return what plans [variants][sizes] read: by device, constants by name, and their bytes."""
    found: tuple[dict[str, int], ...] = tuple({} for _ in rows[0][0].problem.devices)
    for plan in _each(rows):
        _merge(found, _constants(plan))
    return found


def held_by_instance(
    one: Resolved, entry: Instances, rows: Sequence[Sequence[Plan]]
) -> InstanceHeld:
    """Return what an instance of `entry` holds, whose plans are `rows` [variants][sizes]."""
    most = [0] * len(one.problem.devices)
    for plan in _each(rows):
        _, peaks = peak_memory(plan)
        weights = resident_weights(tasks_of_plan(plan, plan.problem.contention))
        for p, peak in enumerate(peaks):
            most[p] = max(most[p], peak - weights[p])
    times = max(one.served.in_flight(entry), 1)
    return InstanceHeld(weights_of(rows), tuple(times * each for each in most))


def _held(one: Resolved) -> Held:
    devices = len(one.problem.devices)
    constants: tuple[dict[str, int], ...] = tuple({} for _ in range(devices))
    live, apart = [0] * devices, [0] * devices
    for entry, rows in zip(one.served.instances, one.plans, strict=True):
        mine = held_by_instance(one, entry, rows)
        _merge(constants, mine.constants)
        for p, there in enumerate(mine.constants):
            apart[p] += entry.count * sum(there.values())
        live = [total + entry.count * each for total, each in zip(live, mine.live, strict=True)]
    stored = [sum(there.values()) for there in constants]
    if one.served.autoscaling is not None:
        stored = apart
    whole = [size + more for size, more in zip(stored, live, strict=True)]
    host = one.problem.host
    elsewhere: dict[str, int] = {}
    for p, there in enumerate(constants):
        if p != host:
            elsewhere.update(there)
    if host is not None:
        elsewhere = {k: size for k, size in elsewhere.items() if k not in constants[host]}
    return Held(
        tuple(one.problem.held_bytes(p, size) for p, size in enumerate(stored)),
        tuple(one.problem.held_bytes(p, size) for p, size in enumerate(whole)),
        sum(elsewhere.values()),
    )


def _each(rows: Sequence[Sequence[Plan]]) -> Iterable[Plan]:
    """Each plan once."""
    return {id(plan): plan for row in rows for plan in row}.values()


def _merge(whole: Sequence[dict[str, int]], more: Sequence[Mapping[str, int]]) -> None:
    """Take further constants in, by device: of those of one name the largest."""
    for mine, others in zip(whole, more, strict=True):
        for name, nbytes in others.items():
            mine[name] = max(mine.get(name, 0), nbytes)


def _constants(plan: Plan) -> list[dict[str, int]]:
    """By device: the constants that its nodes read, and their bytes."""
    problem = plan.problem
    found: list[dict[str, int]] = [{} for _ in problem.devices]
    for constant in problem.constants:
        for node in constant.consumers:
            found[plan.assignment[node]][constant.name] = constant.nbytes
    return found
