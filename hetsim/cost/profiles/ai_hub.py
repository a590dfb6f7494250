"""Profiles of Qualcomm AI Hub: what ``ProfileJob.download_profile`` returns, as JSON.

``execution_summary`` has times of whole inferences in microseconds, ``execution_detail`` one
object a layer: ``name``, ``type``, ``compute_unit``, and ``execution_time`` in microseconds or
``execution_cycles``. Cycles are turned to seconds so that they add up to the estimated time of
an inference.

Source: the documentation of Qualcomm AI Hub, "Profile job".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hetsim.cost.profiles.checked import Reader
from hetsim.cost.profiles.record import Profile, TimedKernel

NAME = "AI Hub profile"
_US = 1e-6


def recognised(content: Any) -> bool:
    """Whether it has a summary and a list of layers."""
    return isinstance(content, dict) and "execution_detail" in content


def read(content: Any, reader: Reader, sha256: str) -> Profile:
    """Return the profile; raises InvalidInput where layers have neither times nor cycles."""
    rows = reader.rows(content["execution_detail"], "execution_detail")
    summary = content.get("execution_summary")
    summary = summary if isinstance(summary, dict) else {}
    whole = summary.get("estimated_inference_time")
    run_s = None if whole is None else reader.seconds(whole, _US, "estimated_inference_time")
    rule = "its figures are of inferences after those that warm up"
    times: list[float] = []
    if any(row.get("execution_time") is not None for row in rows):
        for row in rows:
            took = row.get("execution_time")
            times.append(0.0 if took is None else reader.seconds(took, _US, "an execution_time"))
    elif run_s is not None and (all_of_it := sum(cycles := _cycles(rows, reader))) > 0:
        times = [count / all_of_it * run_s for count in cycles]
        rule += "; cycles are turned to seconds by the estimated time of an inference"
    else:
        reader.refuse(
            "its layers have no times", "profile with a runtime that reports times by layer"
        )
    kernels = []
    for row, took_s in zip(rows, times, strict=True):
        op, unit = row.get("type"), row.get("compute_unit")
        kernels.append(
            TimedKernel(
                reader.text(row.get("name"), "the name of a layer"),
                took_s,
                took_s,
                took_s,
                op if isinstance(op, str) else "",
                unit if isinstance(unit, str) else "",
            )
        )
    all_times = summary.get("all_inference_times")
    runs = len(all_times) if isinstance(all_times, list) and all_times else 1
    between_s = None if run_s is None else max(0.0, run_s - sum(times))
    return Profile(NAME, reader.where, sha256, tuple(kernels), runs, rule, between_s=between_s)


def _cycles(rows: Sequence[dict[str, Any]], reader: Reader) -> list[float]:
    """Cycles by layer: 0 where it says nothing of them."""
    return [reader.number(row.get("execution_cycles") or 0, "a count of cycles") for row in rows]
