"""A program on Ray: one actor a device, values handed from actor to actor."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

from hetsim.errors import ExecutionError
from hetsim.execution.actors import DeviceActor, file_facts
from hetsim.execution.failures import stuck, unanswered
from hetsim.execution.interrupts import held_interrupts
from hetsim.execution.program import Outcome, Program
from hetsim.execution.ray_session import RaySession

RESOURCE_PREFIX = "hetsim_"
"""A node that offers ``hetsim_gpu`` takes the actor of device ``gpu``."""

_SHARE = 0.001
"""Of a node's resource an actor: it says where, and keeps nobody else out."""

_INLINE_BELOW_BYTES = 100_000
_CHUNK_BYTES = 64 * 2**20

Actor = Any


def run_on_ray(
    program: Program, inputs: Mapping[str, Any], timeout_s: float, session: RaySession
) -> Outcome:
    """Run `program` on the Ray that this process is connected to.

    Every call is submitted at once, with references to what it receives; values go from
    actor to actor through Ray's object stores, and only the outputs come here.

    Parameters
    ----------
    program : Program
    inputs : mapping of str to value
        Every input of the model.
    timeout_s : float
        For compiling, and again for running.
    session : RaySession

    Raises
    ------
    ExecutionError
        Where a device fails, dies, does not answer in time, or has no node to be on.
    """
    began = time.perf_counter()
    with _actors(tuple(program.code)) as actors:
        _load(program, actors, session, timeout_s)
        ready = time.perf_counter()
        values = {name: _handed(value) for name, value in inputs.items()}
        ends: list[Any] = []
        kept: dict[str, Any] = {}
        uses = _uses(program)
        for index, step in enumerate(program.steps):
            arguments = [values[name] for name in step.receives]
            method = actors[step.device].run.options(num_returns=1 + len(step.sends))
            returned = method.remote(index, *arguments)
            end, *sent = returned if step.sends else [returned]
            ends.append(end)
            for name, reference in zip(step.sends, sent, strict=True):
                values[name] = reference
                if name in program.outputs:
                    kept[name] = reference
            del arguments, sent, returned
            # A reference held here would keep the value in memory after its last reader.
            for name in step.receives:
                uses[name] -= 1
                if not uses[name]:
                    del values[name]
        try:
            found = ray.get([*ends, *(kept[name] for name in program.outputs)], timeout=timeout_s)
        except GetTimeoutError as error:
            done = set(_ready(ends))
            late = stuck(program.steps, [end in done for end in ends])
            raise unanswered(late, "running the plan", timeout_s) from error
        except RayError as error:
            raise _blame(
                [(step.device, end) for step, end in zip(program.steps, ends, strict=True)], error
            ) from error
        outputs = dict(zip(program.outputs, found[len(ends) :], strict=True))
        # Copied, because the arrays lie in memory that ends with Ray.
        outputs = {name: _owned(value) for name, value in outputs.items()}
        return Outcome(outputs, ready - began, time.perf_counter() - ready)


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


def _offered() -> dict[str, float]:
    offered: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return offered


@contextmanager
def _actors(devices: Sequence[str]) -> Iterator[dict[str, Actor]]:
    where = placement(devices, _offered())
    kind = ray.remote(DeviceActor)
    actors: dict[str, Actor] = {}
    try:
        for device in devices:
            actors[device] = kind.options(
                num_cpus=0, max_restarts=0, resources=where[device]
            ).remote(device)
        yield actors
    finally:
        with held_interrupts(), suppress(RayError):
            for actor in actors.values():
                ray.kill(actor, no_restart=True)


def _load(
    program: Program, actors: Mapping[str, Actor], session: RaySession, timeout_s: float
) -> None:
    deadline = time.monotonic() + timeout_s
    if not session.private and program.weights_dir is not None:
        _ship(program, program.weights_dir, actors, deadline, timeout_s)
    loads = {
        device: actor.load.remote(
            program.code[device],
            {index: program.steps[index] for index in program.steps_of(device)},
            program.weights_dir,
        )
        for device, actor in actors.items()
    }
    _collect(loads, deadline, "compiling subgraphs", timeout_s)


def _ship(
    program: Program,
    weights_dir: str,
    actors: Mapping[str, Actor],
    deadline: float,
    timeout_s: float,
) -> None:
    """Send the weights to the devices whose machines do not see the files."""
    asked = {
        device: actor.sees.remote(
            weights_dir,
            file_facts(weights_dir, sorted({r.location for r in program.regions[device]})),
        )
        for device, actor in actors.items()
    }
    seen = _collect(asked, deadline, "looking for the weights", timeout_s)
    for device, actor in actors.items():
        if seen[device]:
            continue
        for region in program.regions[device]:
            file = Path(weights_dir) / region.location
            for start in range(0, region.nbytes, _CHUNK_BYTES):
                offset = region.offset + start
                count = min(_CHUNK_BYTES, region.nbytes - start)
                data = np.fromfile(file, np.uint8, count, offset=offset)
                sent = actor.take_weights.remote(region.location, offset, data)
                # One at a time, so that the object store need not hold the whole model.
                _collect({device: sent}, deadline, "receiving weights", timeout_s)


def _collect(
    references: Mapping[str, Any], deadline: float, doing: str, timeout_s: float
) -> dict[str, Any]:
    """Get one result a device."""
    pending = list(references.values())
    try:
        found = ray.get(pending, timeout=max(0.0, deadline - time.monotonic()))
    except GetTimeoutError as error:
        done = set(_ready(pending))
        late = [device for device, end in references.items() if end not in done]
        raise unanswered(late, doing, timeout_s) from error
    except RayError as error:
        raise _blame(list(references.items()), error) from error
    return dict(zip(references, found, strict=True))


def _ready(references: Sequence[Any]) -> list[Any]:
    ready, _ = ray.wait(list(references), num_returns=len(references), timeout=0, fetch_local=False)
    return list(ready)


def _blame(calls: Sequence[tuple[str, Any]], first: RayError) -> ExecutionError:
    """Return the error of the first call that failed: those after it may only have inherited it."""
    done = set(_ready([end for _, end in calls]))
    for device, end in calls:
        if end not in done:
            continue
        try:
            ray.get(end, timeout=1.0)
        except GetTimeoutError:
            continue
        except RayError as error:
            return _translated(error, device)
    return _translated(first, None)


def _translated(error: RayError, device: str | None) -> ExecutionError:
    where = f"device '{device}'" if device is not None else None
    if isinstance(error, RayTaskError):
        if isinstance(error.cause, ExecutionError):
            return error.cause
        return ExecutionError(f"{type(error.cause).__name__}: {error.cause}", where=where)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, RayActorError):
        return _death(lines, where)
    return ExecutionError(f"{type(error).__name__}: {lines[0] if lines else ''}", where=where)


def _death(lines: Sequence[str], where: str | None) -> ExecutionError:
    """What Ray says of an actor that died, in one line: an exception, or how its process ended."""
    last = lines[-1] if lines else ""
    if re.match(r"\w+(Error|Exception)\b", last):
        hint = "install this hetsim on every node" if "No module" in last else None
        return ExecutionError(f"its Ray actor did not start: {last}", where=where, hint=hint)
    because = re.search(r"The actor is dead because (.*?)\.?( Worker exit type|$)", " ".join(lines))
    reason = because[1] if because is not None else last
    return ExecutionError(
        f"its Ray actor died: {reason}",
        where=where,
        hint="see whether its machine ran out of memory",
    )


def _uses(program: Program) -> dict[str, int]:
    """How many steps receive each value."""
    uses: dict[str, int] = {}
    for step in program.steps:
        for name in step.receives:
            uses[name] = uses.get(name, 0) + 1
    return uses


def _handed(value: Any) -> Any:
    """What stands for an input in calls: small values travel with each, large ones once."""
    if isinstance(value, np.ndarray) and value.nbytes >= _INLINE_BELOW_BYTES:
        return ray.put(value)
    return value


def _owned(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, list):
        return [_owned(entry) for entry in value]
    return value
