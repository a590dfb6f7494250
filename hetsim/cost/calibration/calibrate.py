"""Calibration of this machine: measured, fitted, judged, written as a device file."""

from __future__ import annotations

import datetime
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_high
from typing import Any

import numpy as np
import yaml

from hetsim.core.files import whole_file
from hetsim.core.room import memory_bytes, out_of_room
from hetsim.core.units import significant
from hetsim.cost.calibration.corrections import corrections, learnt_block, learnt_joins
from hetsim.cost.calibration.fit import (
    Fit,
    JudgedNetwork,
    figure_errors,
    fit,
    judge,
    network_of,
    prior,
)
from hetsim.cost.calibration.measurements import (
    Journal,
    MeasuringProgress,
    NetworkRun,
    NetworkTask,
    RunSettings,
    measure,
    merged,
    rounds,
)
from hetsim.cost.calibration.networks import VERSION
from hetsim.device.kernels.timing import provider_of, runtime_version
from hetsim.errors import InvalidInput, UsageError
from hetsim.graph.model import Model
from hetsim.graph.zoo.models import source_path
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS, Correction, FigureError

_KINDS: Mapping[str, str] = {
    "cpu": "cpu", "xnnpack": "cpu", "qnn": "npu", "coreml": "npu", "openvino": "cpu",
}  # fmt: skip
_WATTS: Mapping[str, tuple[float, float]] = {
    "cpu": (10.0, 65.0),
    "gpu": (30.0, 200.0),
    "npu": (1.0, 8.0),
}
_RELATIVE = ("pointwise", "matmul", "batched")
_GIB = 2.0**30


def device_file(
    setting: RunSettings,
    date: str,
    networks: int,
    fitted: Fit,
    corrections: Sequence[Correction],
    joins: Mapping[str, frozenset[str]] | None,
    block: int | None,
    errors: Sequence[FigureError],
) -> str:
    """Return the YAML text of the device, as read by ``load_device``."""
    kind = _KINDS.get(setting.provider, "gpu")
    values = np.exp(fitted.log_values)
    where = f"{setting.machine.get('processor', 'this machine')}, {_threads(setting)}"
    source = f"hetsim devices calibrate {setting.provider}, {date}: {setting.runtime} on {where}"
    fastest = max(1.0, *(float(values[INDEX[name]]) for name in _RELATIVE))

    def figure(value: float, status: str = "fitted", of: str = source) -> dict[str, Any]:
        return {"value": significant(value), "status": status, "source": of}

    def si(name: str) -> float:
        return PARAMETERS[INDEX[name]].in_key_unit(float(values[INDEX[name]]))

    idle_w, busy_w = _WATTS[kind]
    guessed = "not measured: a typical one of its kind"
    kernels: dict[str, Any] = {
        "kin": f"onnxruntime-{setting.provider}-float",
        "runtime": setting.runtime,
        "source": f"{source}; {networks} generated networks",
        "parameters": {
            "value": {one.name: significant(si(one.name)) for one in PARAMETERS},
            "status": "fitted",
            "source": source,
        },
    }
    if errors:
        kernels["errors"] = [
            {
                "batch": one.batch, "networks": one.networks, "rows": one.rows,
                "median": significant(one.median), "p90": significant(one.p90),
                "spread": None if one.spread is None else significant(one.spread),
                "sd": significant(one.sd), "common": significant(one.common),
            }
            for one in errors
        ]  # fmt: skip
    if joins is not None:
        kernels["joins"] = {form: sorted(words) for form, words in sorted(joins.items())}
    if block is not None:
        kernels["channel_block"] = block
    if corrections:
        kernels["corrections"] = {one.form: _correction(one) for one in corrections}
    data: dict[str, Any] = {
        "kind": kind,
        "full_name": f"{where}, by {setting.runtime} ({setting.provider})",
        "peak_tflops": {"float32": figure(si("rate_tflops") * fastest)},
        "memory_bandwidth_gbytes_s": figure(si("bandwidth_gbytes_s")),
        "memory_gib": figure(memory_bytes() / _GIB, "measured", "of the machine"),
        "launch_us": figure(si("launch_us")),
        "dispatch_us": figure(si("dispatch_us")),
        "streams": {"value": 1, "status": "measured", "source": "one run at a time"},
        "idle_w": figure(idle_w, "estimate", guessed),
        "busy_w": figure(busy_w, "estimate", guessed),
        "efficiency": {
            "value": {"default": 1.0},
            "status": "fitted",
            "source": "the peak is the highest measured rate",
        },
        "memory_efficiency": {"value": 1.0, "status": "fitted", "source": "the same"},
        "threads": setting.threads,
        "kernels": {"float32": kernels},
    }
    head = f"# Written by {source}.\n"
    return head + yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


def _threads(setting: RunSettings) -> str:
    return "1 thread" if setting.threads == 1 else f"{setting.threads} threads"


def _correction(one: Correction) -> dict[str, Any]:
    lines = [
        " ".join(f"{number:g}" for number in (*centre, weight))
        for centre, weight in zip(one.centres, one.weights, strict=True)
    ]
    if not one.coordinates:
        return {"offset": one.offset}
    return {
        "offset": one.offset,
        "coordinates": {
            axis.name: _Flow(
                {"from": axis.low, "to": axis.high, "scale": axis.scale, "slope": axis.slope}
            )
            for axis in one.coordinates
        },
        "centres": _Block("\n".join(lines) + "\n"),
    }


class _Block(str):
    """Text written as a literal block."""

    __slots__ = ()


class _Flow(dict[str, float]):
    """Mapping written in one line."""


class _Dumper(yaml.SafeDumper):
    """YAML dumper with block texts and one-line mappings."""


_Dumper.add_representer(
    _Block, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
)
_Dumper.add_representer(
    _Flow,
    lambda dumper, mapping: dumper.represent_mapping(
        "tag:yaml.org,2002:map", mapping, flow_style=True
    ),
)


def machine() -> Mapping[str, str]:
    """Return the identity of this machine: processor, usable cores, system."""
    return {
        "processor": _processor(),
        "cores": str(cores()),
        "system": f"{platform.system()} {platform.machine()}",
    }


def cores() -> int:
    """Return the number of processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    """Return the processor's name, with family and model if the name alone is ambiguous."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields: dict[str, str] = {}
    for line in lines:
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), " ".join(value.split()))
    name = fields.get("model name") or fields.get("Model") or fields.get("Hardware")
    if name is None:
        parts = [fields[key] for key in ("CPU implementer", "CPU part") if key in fields]
        return " ".join(("ARM", *parts)) if parts else platform.machine()
    if "cpu family" in fields and "model" in fields:
        name += f" (family {fields['cpu family']}, model {fields['model']})"
    return name


BUDGET_S = 600.0
FEWEST = 12
"""Minimum number of networks for a fit."""

_NOISY = 0.1


@dataclass(frozen=True, slots=True)
class Calibration:
    """Result of a calibration.

    - `output`, `journal`: the device file, and the file of measurements.
    - `networks`: number of generated networks used in the fit.
    - `complete`: whether everything requested was measured within the budget.
    - `spread`: median relative spread of repeated measurements.
    - `waited`: median share of the time in which the process had to wait for others.
    - `judged`: zoo models and their parts, which the fit did not use.
    - `errors`: errors stated in the file.
    """

    setting: RunSettings
    output: Path
    journal: Path
    networks: int
    complete: bool
    spread: float
    waited: float
    fitted: Fit
    corrections: tuple[Correction, ...]
    judged: tuple[JudgedNetwork, ...]
    errors: tuple[FigureError, ...]

    @property
    def noisy(self) -> bool:
        """Whether other processes disturbed the measurement, so figures are less certain."""
        return self.spread > _NOISY or self.waited > _NOISY


def calibrate(
    provider: str,
    output: str | os.PathLike[str],
    *,
    threads: int = 1,
    budget_s: float = BUDGET_S,
    networks: int | None = None,
    models: Sequence[str] | None = None,
    report: Callable[[MeasuringProgress], None] = lambda progress: None,
    date: str | None = None,
) -> Calibration:
    """Measure this machine through an execution provider and write its device file.

    Measurements are appended to a journal next to the file; an existing one of the same machine and
    setting is continued.

    Parameters
    ----------
    provider : str
        One of ``hetsim.device.kernels.timing.PROVIDERS``.
    output : path
        Device file, ``.yaml``; overwritten.
    threads : int
        Threads of one kernel.
    budget_s : float
        Wall-clock budget for measuring.
    networks : int, optional
        Maximum number of generated networks; absent: as many as fit the budget.
    models : sequence of str, optional
        Zoo models for evaluation; absent: all.
    report : callable
        Called before each network.
    date : str, optional
        Date in the file; absent: today.

    Raises InvalidInput if the provider is missing, the file cannot be written, or the journal is of
    another machine, runtime or setting; UsageError for invalid numbers.
    """
    if threads < 1 or threads > 4 * cores():
        raise UsageError(f"{threads} threads on {cores()} processors", hint="use 1 or more")
    if networks is not None and networks < FEWEST:
        raise UsageError(
            f"{networks} networks are too few for a fit", hint=f"give {FEWEST} or more"
        )
    path = Path(output)
    if path.suffix not in (".yaml", ".yml"):
        raise UsageError(
            f"'{path}' is not a device file name", hint="use a name that ends in .yaml"
        )
    for name in models or ():
        source_path(name)
    provider_of(provider)
    setting = RunSettings(provider, threads, runtime_version(), dict(machine()), VERSION)
    journal = Journal(path.with_suffix(".journal.jsonl"), setting)
    tasks = list(rounds(MOST_NETWORKS if networks is None else networks, models))
    complete = measure(tasks, journal, setting, budget_s, report, fewest=FEWEST)
    read = _read(journal, tasks, report)
    generated = [(model, taken) for model, taken, fits in read if fits]
    joins, block = learnt_joins(generated), learnt_block(generated)
    fitted_to = [network_of(model, taken, joins, block) for model, taken in generated]
    left_out = [network_of(model, taken, joins, block) for model, taken, fits in read if not fits]
    spread, waited = (
        median_high([getattr(taken, name) for _, taken, _ in read] or [0.0])
        for name in ("spread", "waited")
    )
    found = fit(fitted_to, *prior(provider, threads))
    factors = corrections(fitted_to, found)
    judged = judge(left_out, found, factors)
    errors = figure_errors(judged)
    today = datetime.date.today().isoformat() if date is None else date
    text = device_file(setting, today, len(fitted_to), found, factors, joins, block, errors)
    try:
        with whole_file(path) as draft:
            draft.write(text.encode("utf-8"))
    except OSError as error:
        raise out_of_room(error, path) or InvalidInput(
            f"cannot write the device file: {error.strerror or error}", where=str(path)
        ) from error
    return Calibration(
        setting, path, journal.path, len(fitted_to), complete, spread, waited, found, factors,
        judged, errors,
    )  # fmt: skip


MOST_NETWORKS = 360


def _read(
    journal: Journal,
    tasks: Sequence[tuple[int, NetworkTask]],
    report: Callable[[MeasuringProgress], None],
) -> list[tuple[Model, NetworkRun, bool]]:
    """Return each measured network with its measurement, and whether it is used in the fit."""
    named = {task.name: task for _, task in tasks}
    found: list[tuple[Model, NetworkRun, bool]] = []
    for name, times in journal.by_network().items():
        task = named.get(name)
        if task is not None:
            report(MeasuringProgress(f"{name}: its kernels", len(journal), 0.0))
            found.append((task.load(), merged(times), task.fitted))
    return found
