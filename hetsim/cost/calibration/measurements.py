"""Measurement of generated networks: tasks, runs, and the journal of results."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from io import BufferedWriter
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from hetsim.core.files import append, read_regular, whole_file
from hetsim.core.room import memory_bytes, out_of_room
from hetsim.cost.calibration.networks import networks
from hetsim.device.kernels.timing import TimedNetwork, provider_of, time_network
from hetsim.errors import InvalidInput
from hetsim.graph.extract import extract
from hetsim.graph.inputs.samples import random_inputs
from hetsim.graph.loading import load_model, model_of
from hetsim.graph.model import Model
from hetsim.graph.work import graph_work
from hetsim.graph.zoo.models import names as zoo_names

_FROM, _TO = 0.1, 0.35
"""Range of quantiles of repeats that count: above lucky outliers, below disturbed runs."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings that measurements of one journal share.

    `threads` are those of one kernel; `machine` is the result of ``calibrate.machine``; `design`
    the version of the generated networks.
    """

    provider: str
    threads: int
    runtime: str
    machine: Mapping[str, str] = field(default_factory=dict)
    design: int = 0

    @property
    def clock(self) -> str:
        """Clock of the measurements: CPU time on a CPU with one thread, else the wall clock."""
        return "cpu" if self.provider == "cpu" and self.threads == 1 else "wall"


@dataclass(frozen=True, slots=True)
class RunKernel:
    """Kernel of the runtime: name, op, elements of its first output, and seconds."""

    name: str
    op: str
    elements: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class NetworkRun:
    """Measurement number `round` of a network.

    `seconds` per run are by the setting's clock; `spread` is half the range of the middle 80 % of
    repeats, relative to it; `waited` the share of wall-clock time in which the process did not run;
    kernels are in execution order.
    """

    network: str
    round: int
    seconds: float
    spread: float
    waited: float
    kernels: tuple[RunKernel, ...]


def network_run(network: str, round_: int, timed: TimedNetwork, setting: RunSettings) -> NetworkRun:
    """Return one measurement from the repeats of all timed parts."""
    of = timed.cpu_s if setting.clock == "cpu" else timed.wall_s
    ordered = sorted(of)
    seconds = typical(ordered)
    low, high = ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]
    waited = 1.0 - sum(timed.cpu_s) / max(sum(timed.wall_s), 1e-12)
    return NetworkRun(
        network=network,
        round=round_,
        seconds=seconds,
        spread=(high - low) / 2 / seconds,
        waited=max(0.0, waited) if setting.clock == "cpu" else 0.0,
        kernels=tuple(
            RunKernel(kernel.name, kernel.op, kernel.elements, typical(kernel.seconds))
            for kernel in timed.kernels
            if kernel.seconds
        ),
    )


def typical(values: Sequence[float]) -> float:
    """Return the mean of the undisturbed repeats: the 10th to the 35th percentile."""
    ordered = sorted(values)
    first = int(len(ordered) * _FROM)
    chosen = ordered[first : max(first + 1, int(len(ordered) * _TO))]
    return sum(chosen) / len(chosen)


def merged(times: Sequence[NetworkRun]) -> NetworkRun:
    """Return one measurement from several of the same network: the typical time per kernel."""
    if len(times) == 1:
        return times[0]
    by_name: dict[tuple[str, str], list[RunKernel]] = {}
    for one in times:
        for kernel in one.kernels:
            by_name.setdefault((kernel.name, kernel.op), []).append(kernel)
    seconds = typical([one.seconds for one in times])
    apart = (max(one.seconds for one in times) - min(one.seconds for one in times)) / 2 / seconds
    return NetworkRun(
        network=times[0].network,
        round=len(times),
        seconds=seconds,
        spread=max(apart, min(one.spread for one in times)),
        waited=min(one.waited for one in times),
        kernels=tuple(
            RunKernel(name, op, found[0].elements, typical([kernel.seconds for kernel in found]))
            for (name, op), found in by_name.items()
            if len(found) == len(times)
        ),
    )


BLOCK = 60
"""Number of generated networks measured in sequence before they are measured again."""

_ROUNDS = 2
_FEWEST_NODES = 3


@dataclass(frozen=True, slots=True)
class NetworkTask:
    """Network to measure; parameters are `fitted` to it, or evaluated on it."""

    name: str
    load: Callable[[], Model]
    fitted: bool


def generated(first: int, last: int) -> tuple[NetworkTask, ...]:
    """Return generated networks from `first` up to but excluding `last`."""
    return tuple(
        NetworkTask(one.name, partial(_generated, one.index), fitted=True)
        for one in networks(last)[first:]
    )


def judged(names: Sequence[str] | None = None) -> tuple[NetworkTask, ...]:
    """Return zoo models, and for each the 2 to 5 parts of one cut."""
    found: list[NetworkTask] = []
    for index, name in enumerate(zoo_names() if names is None else names):
        parts = 2 + index % 4
        found.append(NetworkTask(f"zoo:{name}", partial(load_model, f"zoo:{name}"), fitted=False))
        found += [
            NetworkTask(
                f"zoo:{name} {part + 1}/{parts}",
                partial(part_of, f"zoo:{name}", part, parts, index),
                fitted=False,
            )
            for part in range(parts)
        ]
    return tuple(found)


def rounds(
    most: int | None = None, names: Sequence[str] | None = None
) -> Iterator[tuple[int, NetworkTask]]:
    """Yield (round, task) in measuring order, without end unless `most` limits the networks."""
    first = 0
    while most is None or first < most:
        last = first + BLOCK if most is None else min(first + BLOCK, most)
        for round_ in range(_ROUNDS):
            yield from ((round_, task) for task in generated(first, last))
            if first == 0:
                yield from ((round_, task) for task in judged(names))
        first = last


def part_of(source: str, part: int, parts: int, seed: int) -> Model:
    """Return one of `parts` subgraphs that model `source` is cut into, as a separate model."""
    model = load_model(source)
    nodes = _cut(model, parts, seed)[part]
    alone = extract(model, nodes)
    return model_of(
        alone.proto,
        name=f"{source} {part + 1}/{parts}",
        weights_dir=model.weights_dir,
        canonical="none",
    )


def _cut(model: Model, parts: int, seed: int) -> list[tuple[int, ...]]:
    """Return runs of the nodes' order, cut at random shares of the model's work."""
    works = graph_work(model.graph)
    done = np.cumsum([work.flops + work.read_bytes + work.write_bytes for work in works])
    rng = np.random.default_rng([seed, parts])
    shares = np.cumsum(rng.dirichlet(np.full(parts, 4.0)))[:-1]
    ends = [int(np.searchsorted(done, share * done[-1])) for share in shares]
    found: list[tuple[int, ...]] = []
    first = 0
    for index, end in enumerate([*ends, len(works)]):
        left = (parts - 1 - index) * _FEWEST_NODES
        last = min(max(end, first + _FEWEST_NODES), len(works) - left)
        found.append(tuple(range(first, last)))
        first = last
    return found


def _generated(index: int) -> Model:
    one = networks(index + 1)[index]
    return model_of(one.build(), name=one.name)


SCHEMA = "hetsim-calibration/1"
_LIMIT_BYTES = 2**30
_ON = "free space there and run it again: finished measurements are kept"


class Journal:
    """File of JSON lines: the setting first, then one line per measurement.

    Parameters
    ----------
    path : path
        Path of the file, created if needed; a truncated last line is dropped.

    Raises InvalidInput if the file is not a journal, or of another machine, runtime or setting.
    """

    def __init__(self, path: str | os.PathLike[str], setting: RunSettings) -> None:
        self.path = Path(path)
        self._taken: dict[tuple[str, int], NetworkRun] = {}
        if self.path.exists():
            self._read(setting)
        else:
            first = {"schema": SCHEMA, "setting": asdict(setting)}
            try:
                with whole_file(self.path) as draft:
                    draft.write((json.dumps(first) + "\n").encode("utf-8"))
            except OSError as error:
                raise out_of_room(error, path) or InvalidInput(
                    f"cannot write the journal: {error.strerror or error}", where=str(path)
                ) from error

    def __contains__(self, key: tuple[str, int]) -> bool:
        return key in self._taken

    def __iter__(self) -> Iterator[NetworkRun]:
        return iter(self._taken.values())

    def __len__(self) -> int:
        return len(self._taken)

    def add(self, taken: NetworkRun) -> None:
        """Write a measurement to disk before returning."""
        record = [
            taken.network, taken.round, taken.seconds, taken.spread, taken.waited,
            [[k.name, k.op, k.elements, k.seconds] for k in taken.kernels],
        ]  # fmt: skip
        with self._open() as stream:
            stream.write((json.dumps(record) + "\n").encode("utf-8"))
        self._taken[taken.network, taken.round] = taken

    def by_network(self) -> dict[str, list[NetworkRun]]:
        """Return the measurements by network, in order of their first one."""
        found: dict[str, list[NetworkRun]] = {}
        for one in self._taken.values():
            found.setdefault(one.network, []).append(one)
        return found

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            with BufferedWriter(append(self.path)) as stream:
                yield stream
        except OSError as error:
            # A truncated line is dropped when the journal is read.
            raise out_of_room(error, self.path, hint=_ON) or InvalidInput(
                f"cannot write the journal: {error.strerror or error}", where=str(self.path)
            ) from error

    def _read(self, setting: RunSettings) -> None:
        where = str(self.path)
        try:
            data = read_regular(self.path, _LIMIT_BYTES)
            *lines, rest = data.decode("utf-8").split("\n")
            head = json.loads(lines[0])
            given = head["setting"] if head["schema"] == SCHEMA else None
        except OSError as error:
            raise InvalidInput(
                f"cannot read the journal: {error.strerror or error}", where=where
            ) from error
        except (ValueError, LookupError, TypeError):
            given = None
        if not isinstance(given, dict):
            raise InvalidInput(
                "not a journal of a calibration", where=where, hint="use another output path"
            )
        wanted = asdict(setting)
        differs = [key for key in wanted if given.get(key) != wanted[key]]
        if differs:
            key = differs[0]
            raise InvalidInput(
                f"it was started with {key} {given.get(key)!r}, but this run has {wanted[key]!r}",
                where=where,
                hint="delete it to start again, or continue with the same settings",
            )
        for number, line in enumerate(lines[1:], start=2):
            taken = _taken(line)
            if taken is None:
                raise InvalidInput(
                    "not a measurement", where=f"{where}:{number}", hint="delete the line"
                )
            self._taken[taken.network, taken.round] = taken
        if rest:
            # The line being written at an interruption.
            with self._open() as stream:
                stream.truncate(len(data) - len(rest.encode("utf-8")))


def _taken(line: str) -> NetworkRun | None:
    try:
        network, round_, seconds, spread, waited, kernels = json.loads(line)
        found = NetworkRun(
            str(network),
            int(round_),
            _positive(seconds),
            float(spread),
            float(waited),
            tuple(
                RunKernel(str(name), str(op), None if n is None else int(n), _positive(took))
                for name, op, n, took in kernels
            ),
        )
    except (ValueError, TypeError):
        return None
    return found


def _positive(value: Any) -> float:
    if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise ValueError(value)
    return float(value)


RUNS = 15
_MOST_S = 0.35
_MOST_JUDGED_S = 1.0
_PART_OF_MEMORY = 0.2


@dataclass(frozen=True, slots=True)
class MeasuringProgress:
    """Progress of measuring: current network, number measured, and remaining seconds."""

    network: str
    measured: int
    left_s: float


def measure(
    tasks: Iterable[tuple[int, NetworkTask]],
    journal: Journal,
    setting: RunSettings,
    budget_s: float,
    report: Callable[[MeasuringProgress], None],
    *,
    fewest: int,
) -> bool:
    """Measure networks missing in the journal until all are done or the budget is spent."""
    provider = provider_of(setting.provider)
    begin = time.monotonic()
    for round_, task in tasks:
        left_s = budget_s - (time.monotonic() - begin)
        if left_s <= 0 and len(journal) >= fewest:
            return False
        if (task.name, round_) in journal:
            continue
        report(MeasuringProgress(task.name, len(journal), max(left_s, 0.0)))
        model = task.load()
        if _weight_bytes(model) > _PART_OF_MEMORY * memory_bytes():
            continue
        timed = time_network(
            model.proto.SerializeToString(),
            random_inputs(model),
            provider,
            setting.threads,
            runs=RUNS,
            most_s=_MOST_S if task.fitted else _MOST_JUDGED_S,
            weights_dir=None if model.weights_dir is None else str(model.weights_dir),
            profiled=setting.clock == "cpu" and task.fitted,
        )
        journal.add(network_run(task.name, round_, timed, setting))
    return True


def _weight_bytes(model: Model) -> int:
    return sum(model.graph.tensors[name].nbytes for name in model.graph.constants)
