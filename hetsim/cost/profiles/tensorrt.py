"""Profiles of TensorRT: what ``trtexec --exportProfile`` writes.

A list: ``{"count": N}``, the number of inferences, then one object a layer in the order of
execution, with ``name``, ``timeMs`` over all of them, ``averageMs`` and, from 8.4 on,
``medianMs``. Figures are over all inferences: those that warm up cannot be left out, and the
median hardly sees them.

Source: the documentation of ``trtexec`` and its ``sampleReporting``.
"""

from __future__ import annotations

from typing import Any

from hetsim.cost.profiles.checked import Reader
from hetsim.cost.profiles.record import Profile, TimedKernel

NAME = "TensorRT profile"
_MS = 1e-3


def recognised(content: Any) -> bool:
    """Whether it is a list of layers with times in milliseconds."""
    return isinstance(content, list) and any(
        isinstance(row, dict) and "name" in row and ("averageMs" in row or "timeMs" in row)
        for row in content
    )


def read(content: Any, reader: Reader, sha256: str) -> Profile:
    """Return the profile; raises InvalidInput where a time is missing."""
    rows = reader.rows(content, "the list of layers")
    counts = [reader.number(row["count"], "count") for row in rows if "count" in row]
    runs = max(1, int(counts[0])) if counts else 1
    kernels: list[TimedKernel] = []
    medians = True
    for row in rows:
        if "name" not in row:
            continue
        name = reader.text(row["name"], "the name of a layer")
        if "medianMs" in row:
            took_s = reader.seconds(row["medianMs"], _MS, f"medianMs of '{name}'")
        elif "averageMs" in row:
            medians = False
            took_s = reader.seconds(row["averageMs"], _MS, f"averageMs of '{name}'")
        else:
            medians = False
            took_s = reader.seconds(row.get("timeMs"), _MS / runs, f"timeMs of '{name}'")
        kernels.append(TimedKernel(name, took_s, took_s, took_s))
    figure = "medians" if medians else "means, for it has no medians,"
    return Profile(
        format=NAME,
        source=reader.where,
        sha256=sha256,
        kernels=tuple(kernels),
        runs=runs,
        rule=f"{figure} over all inferences, those that warm up too",
    )
