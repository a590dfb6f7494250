"""Timing of networks with the runtime's default options and fusions."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hetsim.core.room import out_of_room
from hetsim.device.kernels.onnx_runtime import SessionProfile
from hetsim.errors import ExecutionError, InvalidInput, nearest
from hetsim.graph.reading.session import SILENT, quiet_runtime, session_options

PROVIDERS: Mapping[str, tuple[str, str]] = {
    "cpu": ("CPUExecutionProvider", "onnxruntime"),
    "cuda": ("CUDAExecutionProvider", "onnxruntime-gpu"),
    "tensorrt": ("TensorrtExecutionProvider", "onnxruntime-gpu, and TensorRT"),
    "openvino": ("OpenVINOExecutionProvider", "onnxruntime-openvino"),
    "directml": ("DmlExecutionProvider", "onnxruntime-directml"),
    "coreml": ("CoreMLExecutionProvider", "onnxruntime on macOS"),
    "qnn": ("QNNExecutionProvider", "onnxruntime-qnn"),
    "rocm": ("ROCMExecutionProvider", "onnxruntime-rocm"),
    "migraphx": ("MIGraphXExecutionProvider", "onnxruntime-migraphx"),
    "xnnpack": ("XnnpackExecutionProvider", "a build of onnxruntime with XNNPACK"),
}
"""Execution providers by user-facing name: ONNX Runtime's name, and the package to install."""

_TRUNCATED_S = 0.5e-6
"""Mean loss of a time that the profiler truncates to whole microseconds."""


@dataclass(frozen=True, slots=True)
class TimedKernelRuns:
    """Runs of one kernel of the runtime."""

    name: str
    op: str
    unit: str
    elements: int | None
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TimedNetwork:
    """Measured times of a network."""

    cpu_s: tuple[float, ...]
    wall_s: tuple[float, ...]
    kernels: tuple[TimedKernelRuns, ...]


def available() -> tuple[str, ...]:
    """Return the names of the execution providers in the installed onnxruntime."""
    there = set(quiet_runtime().get_available_providers())
    return tuple(name for name, (provider, _) in PROVIDERS.items() if provider in there)


def check_provider(name: str) -> None:
    """Raise InvalidInput if there is no execution provider `name`, installed or not."""
    if name not in PROVIDERS:
        hint = nearest(name, PROVIDERS)
        raise InvalidInput(f"no execution provider '{name}'", hint=hint, missing=True)


def provider_of(name: str) -> str:
    """Return ONNX Runtime's name of execution provider `name`."""
    check_provider(name)
    there = available()
    provider, package = PROVIDERS[name]
    if name not in there:
        raise InvalidInput(
            f"the installed onnxruntime lacks {provider}; it has {', '.join(there)}",
            hint=f"install {package}",
        )
    return provider


def runtime_version() -> str:
    """Return ``ONNX Runtime`` with the installed version."""
    return f"ONNX Runtime {quiet_runtime().__version__}"


def time_network(
    proto: bytes,
    inputs: Mapping[str, Any],
    provider: str,
    threads: int,
    *,
    runs: int,
    most_s: float,
    weights_dir: str | None = None,
    profiled: bool = True,
) -> TimedNetwork:
    """Return times of a network, first without and then with the profiler.

    Two warm-up runs precede each; then up to `runs` follow, fewer if they take more than `most_s`
    seconds, but at least three. Options are the runtime's defaults, except for threads.

    `proto` is serialised, `provider` is ONNX Runtime's name; external weights are below
    `weights_dir`. Raises ExecutionError if the runtime rejects the network, or does not run all of
    it there.
    """
    options = session_options(weights_dir)
    options.intra_op_num_threads = threads
    # Threads that spin while waiting would count as work.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    cpu_s, wall_s = _timed(_open(proto, provider, options), inputs, runs, most_s)
    if not profiled:
        return TimedNetwork(cpu_s, wall_s, ())
    profile = SessionProfile(options)
    session = _open(proto, provider, options)
    _timed(session, inputs, runs, most_s)
    return TimedNetwork(cpu_s, wall_s, _kernels(profile.events(session)))


def _open(proto: bytes, provider: str, options: Any) -> Any:
    try:
        session = quiet_runtime().InferenceSession(proto, options, providers=[provider])
    except Exception as error:
        gist = re.sub(r"\s+", " ", str(error))
        short = out_of_room(error)
        raise short or ExecutionError(f"ONNX Runtime refuses a network: {gist[:300]}") from error
    if provider not in session.get_providers():
        raise ExecutionError(
            f"ONNX Runtime cannot use {provider} here",
            hint="check its driver and libraries",
        )
    return session


def _timed(
    session: Any, inputs: Mapping[str, Any], runs: int, most_s: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    options = quiet_runtime().RunOptions()
    options.log_severity_level = SILENT
    # Kept alive while the runtime writes into them.
    outputs = session.run(None, inputs, options)
    binding = _bound(session, inputs, outputs)
    cpu_s: list[float] = []
    wall_s: list[float] = []
    for _ in range(runs + 1):
        cpu, wall = time.process_time(), time.perf_counter()
        session.run_with_iobinding(binding, options)
        cpu_s.append(time.process_time() - cpu)
        wall_s.append(time.perf_counter() - wall)
        if sum(wall_s) > most_s and len(wall_s) >= 4:
            break
    del binding, outputs
    return tuple(cpu_s[1:]), tuple(wall_s[1:])


def _bound(session: Any, inputs: Mapping[str, Any], outputs: Sequence[Any]) -> Any:
    """Return inputs and outputs in fixed memory, so that runs neither copy nor allocate them."""
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for value, made in zip(session.get_outputs(), outputs, strict=True):
        if isinstance(made, np.ndarray) and made.dtype.kind in "fiub" and made.size:
            binding.bind_output(value.name, "cpu", 0, made.dtype.type, made.shape, made.ctypes.data)
        else:
            binding.bind_output(value.name)
    return binding


def _kernels(events: Sequence[tuple[str, dict[str, Any]]]) -> tuple[TimedKernelRuns, ...]:
    """Return kernels in execution order, without the two warm-up runs."""
    order: dict[tuple[str, str, str, str], tuple[int | None, list[float]]] = {}
    for name, event in events:
        args = event["args"]
        # Two nodes may have one name.
        number = str(args.get("node_index", ""))
        key = (name, args.get("op_name", ""), args.get("provider", ""), number)
        shapes = args.get("output_type_shape")
        elements = math.prod(next(iter(shapes[0].values()), ())) if shapes else None
        found = order.setdefault(key, (elements, []))
        found[1].append(event["dur"] * 1e-6 + _TRUNCATED_S)
    return tuple(
        TimedKernelRuns(*key[:3], elements, tuple(seconds[2:]))
        for key, (elements, seconds) in order.items()
    )
