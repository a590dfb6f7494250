"""The device file of a machine that was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import yaml

from hetsim.core.machine import memory_bytes
from hetsim.core.units import significant
from hetsim.cost.calibration.fitting import Fit
from hetsim.cost.calibration.record import Setting
from hetsim.hardware.kernel_correction import Correction
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS, FigureError

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
    setting: Setting,
    date: str,
    networks: int,
    fitted: Fit,
    corrections: Sequence[Correction],
    joins: Mapping[str, frozenset[str]] | None,
    block: int | None,
    errors: Sequence[FigureError],
) -> str:
    """Return the YAML text of the device, which ``load_device`` reads.

    Parameters
    ----------
    setting : Setting
    date : str
        Of the run, for the sources.
    networks : int
        Generated networks that were fitted to.
    """
    kind = _KINDS.get(setting.provider, "gpu")
    values = np.exp(fitted.log_values)
    where = f"{setting.machine.get('processor', 'this machine')}, {_threads(setting)}"
    source = f"hetsim calibrate {setting.provider}, {date}: {setting.runtime} on {where}"
    fastest = max(1.0, *(float(values[INDEX[name]]) for name in _RELATIVE))

    def figure(value: float, status: str = "fitted", of: str = source) -> dict[str, Any]:
        return {"value": significant(value), "status": status, "source": of}

    def si(name: str) -> float:
        return PARAMETERS[INDEX[name]].in_key_unit(float(values[INDEX[name]]))

    idle_w, busy_w = _WATTS[kind]
    guessed = "not measured: a usual one of its kind"
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
            "source": "the peak is what was reached",
        },
        "memory_efficiency": {"value": 1.0, "status": "fitted", "source": "the same"},
        "threads": setting.threads,
        "kernels": {"float32": kernels},
    }
    head = f"# Written by {source}.\n"
    return head + yaml.dump(data, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)


def _threads(setting: Setting) -> str:
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
    """Text that is written line by line."""

    __slots__ = ()


class _Flow(dict[str, float]):
    """A mapping that is written in one line."""


class _Dumper(yaml.SafeDumper):
    """Blocks as blocks, flows as flows."""


_Dumper.add_representer(
    _Block, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
)
_Dumper.add_representer(
    _Flow,
    lambda dumper, mapping: dumper.represent_mapping(
        "tag:yaml.org,2002:map", mapping, flow_style=True
    ),
)
