"""Whether all that is served fits the memory of its devices at once."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.base.units import format_bytes
from hetsim.errors import OutOfMemory
from hetsim.hardware.spec import Platform
from hetsim.plans.plan import Plan
from hetsim.service.resolving import Resolved
from hetsim.simulation.clock.memory import resident_weights
from hetsim.simulation.clock.playing import peak_memory
from hetsim.simulation.clock.templates import tasks_of_plan


def held(resolved: Sequence[Resolved]) -> tuple[tuple[int, ...], ...]:
    """Return the bytes that each model holds of each device, [models][devices].

    Weights are there once a model, for all its instances, batch sizes and bindings. Beside them
    each instance keeps room for what its largest batch has live, so many times as it may have
    batches under way; of an instance without a limit that is one.

    Complexity: that of playing each plan once.
    """
    return tuple(_held(one) for one in resolved)


def check_together(resolved: Sequence[Resolved], platform: Platform) -> None:
    """Raise OutOfMemory where a device has less than all models hold of it; the first such one."""
    each = held(resolved)
    for p, (name, spec) in enumerate(platform.devices.items()):
        needed = sum(row[p] for row in each)
        if needed <= spec.memory_bytes:
            continue
        parts = ", ".join(
            f"{one.served.model} {format_bytes(row[p])}"
            for one, row in zip(resolved, each, strict=True)
            if row[p]
        )
        raise OutOfMemory(
            f"what is served needs {format_bytes(needed)} ({needed} bytes) together and it has "
            f"{format_bytes(spec.memory_bytes)} ({spec.memory_bytes} bytes): {parts}",
            where=f"device '{name}'",
            hint="give models devices: of their own, fewer instances, or smaller batches; "
            "loading by turns is not simulated",
            device=name,
            needed_bytes=needed,
            held_bytes=spec.memory_bytes,
        )


def _held(one: Resolved) -> tuple[int, ...]:
    devices = len(one.problem.devices)
    constants: list[dict[str, int]] = [{} for _ in range(devices)]
    live = [0] * devices
    for entry, rows in zip(one.served.instances, one.plans, strict=True):
        most = [0] * devices
        for plan in {id(plan): plan for row in rows for plan in row}.values():
            _, peaks = peak_memory(plan)
            weights = resident_weights(tasks_of_plan(plan, plan.problem.contention))
            for p in range(devices):
                most[p] = max(most[p], peaks[p] - weights[p])
            for p, mine in enumerate(_constants(plan)):
                for name, nbytes in mine.items():
                    constants[p][name] = max(constants[p].get(name, 0), nbytes)
        times = entry.count * max(one.served.in_flight(entry), 1)
        live = [total + times * each for total, each in zip(live, most, strict=True)]
    stated = [sum(there.values()) + live[p] for p, there in enumerate(constants)]
    return tuple(one.problem.held_bytes(p, nbytes) for p, nbytes in enumerate(stated))


def _constants(plan: Plan) -> list[dict[str, int]]:
    """By device: the constants that its nodes read, and their bytes."""
    problem = plan.problem
    found: list[dict[str, int]] = [{} for _ in problem.devices]
    for constant in problem.constants:
        for node in constant.consumers:
            found[plan.assignment[node]][constant.name] = constant.nbytes
    return found
