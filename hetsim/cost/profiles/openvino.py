"""Counters by layer of OpenVINO: ``benchmark_app -report_type detailed_counters``.

As CSV: for each infer request a table that begins with ``layerName`` and ends with ``Total``;
as JSON: ``detailed_performance``, an object with ``nodes`` a request (``avg_performance`` of
``average_counters``: one). A request's counters are of its last inference: none warms up. Times
are in milliseconds, in old files (``realTime (uS)``) in microseconds. What was fused into
another layer or removed is listed as ``NOT_RUN`` or ``OPTIMIZED_OUT``, without a time.

Source: the documentation of ``benchmark_app``, and of ``ov::ProfilingInfo``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hetsim.cost.profiles.checked import Reader, of_runs
from hetsim.cost.profiles.record import Profile

NAME = "OpenVINO counters"
_MS, _US = 1e-3, 1e-6
_Layer = tuple[str, str, float]
"""Name, type, seconds."""


def recognised(content: Any) -> bool:
    """Whether it is the JSON of counters."""
    return isinstance(content, dict) and (
        "detailed_performance" in content or "avg_performance" in content
    )


def recognised_table(text: str) -> bool:
    """Whether it is the CSV of counters."""
    return any(line.startswith("layerName") for line in text[:4096].splitlines())


def read(content: Any, reader: Reader, sha256: str) -> Profile:
    """Return the profile of the JSON form."""
    key = "detailed_performance" if "detailed_performance" in content else "avg_performance"
    requests = content[key] if isinstance(content[key], list) else [content[key]]
    found: list[list[_Layer]] = []
    by_time = content.get("report_type") not in ("detailed", "average")
    for request in reader.rows(requests, key):
        layers: list[_Layer] = []
        for row in reader.rows(request.get("nodes"), f"'nodes' of {key}"):
            name = reader.text(row.get("name"), "the name of a layer")
            by_time = by_time or "%" in row
            if _ran(str(row.get("status", ""))):
                took_s = reader.seconds(row.get("real_time"), _MS, f"real_time of '{name}'")
                layers.append((name, str(row.get("node_type", "")), took_s))
        found.append(layers)
    return _profile(found, reader, sha256, ordered=not by_time)


def read_table(text: str, reader: Reader, sha256: str) -> Profile:
    """Return the profile of the CSV form."""
    found: list[list[_Layer]] = []
    columns: dict[str, int] = {}
    last = 0
    unit_s, separator, ordered = _MS, ";", True
    for line in text.splitlines():
        if line.startswith("layerName"):
            separator = ";" if ";" in line else ","
            heads = [head.strip() for head in line.rstrip(separator).split(separator)]
            columns = {head.split(" ")[0]: at for at, head in enumerate(heads)}
            unit_s = _US if "(us)" in line.lower() else _MS
            ordered = ordered and "%" not in line
            last = max(columns.values())
            if "realTime" not in columns:
                reader.refuse("its table has no column realTime")
            found.append([])
            continue
        said = line.strip(f"{separator} ")
        if not found or separator not in said or line.startswith(f"Total{separator}"):
            continue
        cells = line.split(separator)
        if len(cells) - 1 > last and not cells[-1].strip():
            cells.pop()
        if len(cells) <= last:
            reader.refuse(f"a row of its table has {len(cells)} columns, its head {last + 1}")
        # A name may hold the separator; what follows it does not.
        spare = len(cells) - 1 - last
        cells = [separator.join(cells[: spare + 1]), *cells[spare + 1 :]]
        name = reader.text(cells[0], "the name of a layer")
        if _ran(cells[columns["execStatus"]] if "execStatus" in columns else "EXECUTED"):
            took = cells[columns["realTime"]].strip()
            took_s = reader.seconds(took, unit_s, f"realTime of '{name}'")
            kind = cells[columns["layerType"]] if "layerType" in columns else ""
            found[-1].append((name, kind, took_s))
    return _profile(found, reader, sha256, ordered=ordered)


def _profile(
    requests: Iterable[list[_Layer]], reader: Reader, sha256: str, *, ordered: bool
) -> Profile:
    requests = [layers for layers in requests if layers]
    if not requests:
        reader.refuse("it holds no layer that was executed")
    times: dict[tuple[str, str], list[float]] = {}
    for index, layers in enumerate(requests):
        for name, kind, took_s in layers:
            times.setdefault((name, kind), [0.0] * len(requests))[index] += took_s
    return Profile(
        format=NAME,
        source=reader.where,
        sha256=sha256,
        kernels=tuple(of_runs(name, taken, op=kind) for (name, kind), taken in times.items()),
        runs=len(requests),
        rule="counters are of the last inference of a request, none of which warms up",
        ordered=ordered,
        totals_s=tuple(sum(took_s for _, _, took_s in layers) for layers in requests),
    )


def _ran(status: str) -> bool:
    # Python's benchmark_app writes Status.EXECUTED.
    return status.strip().rpartition(".")[2] == "EXECUTED"
