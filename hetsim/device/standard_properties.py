"""The properties that every device has, from its description."""

from __future__ import annotations

from collections.abc import Sequence

from hetsim.device.properties import Choice, PropertyValue, Whole
from hetsim.hardware.executing import PRECISIONS
from hetsim.hardware.spec import DeviceSpec

PRECISION = "INFERENCE_PRECISION_HINT"
THREADS = "INFERENCE_NUM_THREADS"
PROFILE = "PERF_COUNT"

MOST_THREADS = 256
"""That a kernel can be spread over."""

_CAPABILITIES = {"float32": "FP32", "float16": "FP16", "bfloat16": "BF16", "int8": "INT8"}


def default_precision(spec: DeviceSpec) -> str:
    """Return what a device computes float32 in."""
    return spec.rounding.get("float32", "float32")


def metrics(spec: DeviceSpec, ids: Sequence[str], *, exports: bool) -> dict[str, PropertyValue]:
    """Return what can only be read; `ids` are those of all devices of its kind."""
    capabilities = [_CAPABILITIES[t] for t in _CAPABILITIES if t in spec.flops_per_s]
    return {
        "SUPPORTED_PROPERTIES": (),
        "AVAILABLE_DEVICES": tuple(ids),
        "FULL_DEVICE_NAME": spec.full_name,
        "DEVICE_ARCHITECTURE": f"{spec.kind}:{spec.name}",
        "OPTIMIZATION_CAPABILITIES": (*capabilities, *(["EXPORT_IMPORT"] if exports else [])),
        "RANGE_FOR_ASYNC_INFER_REQUESTS": (1, spec.streams, 1),
        "IMPORT_EXPORT_SUPPORT": exports,
        "DEVICE_TOTAL_MEM_SIZE": spec.memory_bytes,
        "DEVICE_FREE_MEM_SIZE": spec.memory_bytes,
    }


def settings(
    name: str, spec: DeviceSpec, ids: Sequence[str]
) -> dict[str, tuple[Choice | Whole, PropertyValue]]:
    """Return what can be set on the device called `name`, to what, and what it is at first."""
    own = name.rpartition(".")[2]
    precisions = tuple(sorted({*PRECISIONS, "float32"}))
    return {
        "DEVICE_ID": (Choice(tuple(ids)), own if own in ids else ids[0]),
        "NUM_STREAMS": (Whole(1, spec.streams), spec.streams),
        "PERFORMANCE_HINT": (Choice(("LATENCY", "THROUGHPUT")), "LATENCY"),
        PRECISION: (Choice(precisions), default_precision(spec)),
        THREADS: (Whole(1, max(MOST_THREADS, spec.threads)), spec.threads),
        PROFILE: (Choice((False, True)), False),
    }
