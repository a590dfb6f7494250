"""Readers of runtimes' profiles; the format is recognised by the content."""

from __future__ import annotations

import hashlib
import json
import math
import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NoReturn

from hetsim.core.files import no_such_file, read_regular
from hetsim.errors import InvalidInput

LIMIT_BYTES = 2**26
"""Maximum bytes of a file: about 150,000 kernel runs."""

MOST_KERNELS = 100_000
LONGEST_S = 86400.0
"""Maximum seconds of a kernel: a day is a mistake of units."""

LONGEST_NAME = 10_000
_SHOWN = 60
_DIGITS = 10
_MS, _US = 1e-3, 1e-6

_READ = (
    "supported are ONNX Runtime's JSON (SessionOptions.enable_profiling), TensorRT's (trtexec "
    "--exportProfile), OpenVINO's counters as CSV or JSON (benchmark_app -report_type "
    "detailed_counters), and AI Hub's profile JSON"
)


@dataclass(frozen=True, slots=True)
class TimedKernel:
    """Kernel of a profile with its time in a run.

    Attributes
    ----------
    name : str
        Name in the runtime.
    seconds : float
        Median over the runs that count.
    low_s, high_s : float
        Minimum and maximum of them; all equal if the profile has one figure.
    op : str
        Op type in the runtime's terms; ``""`` if unknown.
    unit : str
        Execution provider or compute unit that ran it; ``""`` if unknown.
    index : int or None
        The runtime's number of the node, if known.
    elements : int or None
        Elements of its first output, if the profile has shapes.
    """

    name: str
    seconds: float
    low_s: float
    high_s: float
    op: str = ""
    unit: str = ""
    index: int | None = None
    elements: int | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """Profile as read from its file.

    Attributes
    ----------
    format, source, sha256 : str
        Program, for reports; the given path; digest of the file.
    kernels : tuple of TimedKernel
        Kernels, in order of execution if `ordered`.
    runs : int
        Number of runs of each median.
    rule : str
        Treatment of warm-up runs.
    ordered : bool
        Whether the order of the kernels is that of a run.
    totals_s : tuple of float
        Total time of kernels by run that counts; empty if runs are not distinguished.
    between_s : float or None
        Median time of a run outside of its kernels, if known.
    """

    format: str
    source: str
    sha256: str
    kernels: tuple[TimedKernel, ...]
    runs: int
    rule: str
    ordered: bool = True
    totals_s: tuple[float, ...] = ()
    between_s: float | None = None

    @property
    def total_s(self) -> float:
        """Total time of its kernels: the sum of medians."""
        return float(sum(kernel.seconds for kernel in self.kernels))


def load_profile(source: str | os.PathLike[str]) -> Profile:
    """Return a profile of ONNX Runtime, TensorRT, OpenVINO or AI Hub.

    Raises InvalidInput if it is no regular file, too large, of another format, or has invalid
    figures: negative, not finite, or days long.
    """
    where = os.fspath(source)
    try:
        data = read_regular(source, LIMIT_BYTES)
        text = data.decode("utf-8-sig")
    except FileNotFoundError:
        raise no_such_file(InvalidInput, source, where) from None
    except UnicodeDecodeError:
        raise InvalidInput("not a text file", where=where, hint=_READ) from None
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"cannot read: {what}", where=where, hint="give a profile") from None
    reader = _Reader(where, hashlib.sha256(data).hexdigest())
    profile = reader.profile(text)
    if len(profile.kernels) > MOST_KERNELS:
        reader.refuse(f"it has {len(profile.kernels)} kernels, more than {MOST_KERNELS}")
    if profile.total_s == 0:
        reader.refuse("the total time of its kernels is 0")
    return profile


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reader of one file, whose path is in every error."""

    where: str
    sha256: str

    def profile(self, text: str) -> Profile:
        if text.lstrip()[:1] in ("[", "{"):
            content = self.json(text)
            if isinstance(content, dict) and "execution_detail" in content:
                return _ai_hub(content, self)
            if isinstance(content, dict) and (
                "detailed_performance" in content or "avg_performance" in content
            ):
                return _openvino(content, self)
            rows = (
                [row for row in content if isinstance(row, dict)] if type(content) is list else []
            )
            if any(row.get("cat") in ("Node", "Session") and "ph" in row for row in rows):
                return _onnx_runtime(content, self)
            if any("name" in row and ("averageMs" in row or "timeMs" in row) for row in rows):
                return _tensorrt(content, self)
        elif any(line.startswith("layerName") for line in text[:4096].splitlines()):
            return _openvino_table(text, self)
        raise InvalidInput("unknown profile format", where=self.where, hint=_READ)

    def made(
        self, name: str, kernels: Iterable[TimedKernel], runs: int, rule: str, **others: Any
    ) -> Profile:
        return Profile(name, self.where, self.sha256, tuple(kernels), runs, rule, **others)

    def refuse(self, what: str, hint: str = "profile again") -> NoReturn:
        raise InvalidInput(what, where=self.where, hint=hint)

    def json(self, text: str) -> Any:
        """Parse JSON, without duplicate keys, NaN or excessive nesting."""
        try:
            return json.loads(text, object_pairs_hook=self._object, parse_constant=self._constant)
        except json.JSONDecodeError as error:
            self.refuse(f"not JSON: {error.msg} at line {error.lineno}", _READ)
        except RecursionError:
            self.refuse("its JSON is nested too deeply to be a profile")
        except ValueError as error:
            # A number of thousands of digits.
            self.refuse(f"not a profile: {error}")

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                self.refuse(f"an object has the key '{_cut(name)}' twice")
            found[name] = value
        return found

    def _constant(self, name: str) -> NoReturn:
        self.refuse(f"{name} is not a valid number")

    def text(self, value: object, what: str) -> str:
        """Return a text of acceptable length, or raise."""
        if not isinstance(value, str) or len(value) > LONGEST_NAME:
            shown = "a text is too long" if isinstance(value, str) else type(value).__name__
            self.refuse(f"{what} is {shown}, not a name")
        return value

    def number(self, value: object, what: str) -> float:
        """Return a finite non-negative number, or raise."""
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            self.refuse(f"{what} is {type(value).__name__}, not a number")
        try:
            number = float(value)
        except (ValueError, OverflowError):
            self.refuse(f"{what} is '{_cut(str(value))}', not a number")
        if not math.isfinite(number) or number < 0:
            self.refuse(f"{what} is {number}, but must be a finite number from 0 on")
        return number

    def seconds(self, value: object, unit_s: float, what: str) -> float:
        """Return a time in units of `unit_s` seconds, converted to seconds, or raise."""
        seconds = self.number(value, what) * unit_s
        if seconds > LONGEST_S:
            self.refuse(f"{what} is {seconds:g} s", "no kernel takes a day: check its unit")
        return seconds

    def rows(self, value: object, what: str) -> list[dict[str, Any]]:
        """Return a list of objects, or raise."""
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
            self.refuse(f"{what} is not a list of objects")
        return value


def _of_runs(name: str, times_s: Sequence[float], **others: Any) -> TimedKernel:
    return TimedKernel(name, median(times_s), min(times_s), max(times_s), **others)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _word(value: object) -> str:
    return value if isinstance(value, str) else ""


def _ai_hub(content: Mapping[str, Any], reader: _Reader) -> Profile:
    """Return a profile of Qualcomm AI Hub: the JSON of ``ProfileJob.download_profile``.

    Source: the documentation of Qualcomm AI Hub, "Profile job".
    """
    rows = reader.rows(content["execution_detail"], "execution_detail")
    summary = content.get("execution_summary")
    summary = summary if isinstance(summary, dict) else {}
    whole = summary.get("estimated_inference_time")
    run_s = None if whole is None else reader.seconds(whole, _US, "estimated_inference_time")
    rule = "times are of inferences after the warm-up"
    if any(row.get("execution_time") is not None for row in rows):
        told = (row.get("execution_time") for row in rows)
        times = [0.0 if us is None else reader.seconds(us, _US, "an execution_time") for us in told]
    else:
        counts = (row.get("execution_cycles") or 0 for row in rows)
        cycles = [reader.number(count, "a count of cycles") for count in counts]
        total = sum(cycles)
        if run_s is None or not total:
            hint = "profile with a runtime that reports times per layer"
            reader.refuse("its layers have no times", hint)
        times = [count / total * run_s for count in cycles]
        rule += "; cycles are converted to seconds by the estimated time of an inference"
    kernels = [
        TimedKernel(
            reader.text(row.get("name"), "the name of a layer"),
            *(took_s, took_s, took_s),
            _word(row.get("type")),
            _word(row.get("compute_unit")),
        )
        for row, took_s in zip(rows, times, strict=True)
    ]
    all_times = summary.get("all_inference_times")
    runs = len(all_times) if isinstance(all_times, list) and all_times else 1
    between_s = None if run_s is None else max(0.0, run_s - sum(times))
    return reader.made("AI Hub profile", kernels, runs, rule, between_s=between_s)


def _tensorrt(content: Any, reader: _Reader) -> Profile:
    """Return a profile of TensorRT, from ``trtexec --exportProfile``.

    Source: the documentation of ``trtexec`` and its ``sampleReporting``.
    """
    rows = reader.rows(content, "the list of layers")
    counts = [reader.number(row["count"], "count") for row in rows if "count" in row]
    runs = max(1, int(counts[0])) if counts else 1
    kernels: list[TimedKernel] = []
    medians = True
    for row in rows:
        if "name" not in row:
            continue
        name = reader.text(row["name"], "the name of a layer")
        key = next((key for key in ("medianMs", "averageMs") if key in row), "timeMs")
        medians = medians and key == "medianMs"
        unit_s = _MS / runs if key == "timeMs" else _MS
        took_s = reader.seconds(row.get(key), unit_s, f"{key} of '{name}'")
        kernels.append(TimedKernel(name, took_s, took_s, took_s))
    figure = "medians" if medians else "means, because it has no medians,"
    rule = f"{figure} over all inferences, warm-up included"
    return reader.made("TensorRT profile", kernels, runs, rule)


_Layer = tuple[str, str, float]
"""Name, type and seconds of a layer."""


def _openvino(content: Mapping[str, Any], reader: _Reader) -> Profile:
    """Return OpenVINO's JSON counters: ``benchmark_app -report_type detailed_counters``.

    Source: the documentation of ``benchmark_app``, and of ``ov::ProfilingInfo``.
    """
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
    return _of_requests(found, reader, ordered=not by_time)


def _openvino_table(text: str, reader: _Reader) -> Profile:
    """Return the same from CSV: one table per request, from ``layerName`` to ``Total``."""
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
        # A name may hold the separator; later fields do not.
        spare = len(cells) - 1 - last
        cells = [separator.join(cells[: spare + 1]), *cells[spare + 1 :]]
        name = reader.text(cells[0], "the name of a layer")
        if _ran(cells[columns["execStatus"]] if "execStatus" in columns else "EXECUTED"):
            took = cells[columns["realTime"]].strip()
            took_s = reader.seconds(took, unit_s, f"realTime of '{name}'")
            kind = cells[columns["layerType"]] if "layerType" in columns else ""
            found[-1].append((name, kind, took_s))
    return _of_requests(found, reader, ordered=ordered)


def _of_requests(found: Iterable[list[_Layer]], reader: _Reader, *, ordered: bool) -> Profile:
    requests = [layers for layers in found if layers]
    if not requests:
        reader.refuse("it has no executed layer")
    times: dict[tuple[str, str], list[float]] = {}
    for index, layers in enumerate(requests):
        for name, kind, took_s in layers:
            times.setdefault((name, kind), [0.0] * len(requests))[index] += took_s
    return reader.made(
        "OpenVINO counters",
        (_of_runs(name, taken, op=kind) for (name, kind), taken in times.items()),
        len(requests),
        "counters are of the last inference of a request, after the warm-up",
        ordered=ordered,
        totals_s=tuple(sum(took_s for _, _, took_s in layers) for layers in requests),
    )


def _ran(status: str) -> bool:
    # Python's benchmark_app writes Status.EXECUTED.
    return status.strip().rpartition(".")[2] == "EXECUTED"


_KERNEL = "_kernel_time"
_Key = tuple[str, str, str, int | None]
"""Name, op, unit and number of a kernel."""


@dataclass(frozen=True, slots=True)
class _Event:
    """Kernel in one run, with times in microseconds."""

    begin: float
    end: float
    thread: str
    key: _Key
    elements: int | None


def _onnx_runtime(content: Any, reader: _Reader) -> Profile:
    """Return a profile of ONNX Runtime: the events of ``SessionOptions.enable_profiling``.

    Source: ``docs/performance/tune-performance/profiling-tools`` of onnxruntime.ai.
    """
    runs: list[tuple[float, float]] = []
    events: list[_Event] = []
    for row in reader.rows(content, "the list of events"):
        name = row.get("name")
        if not isinstance(name, str):
            continue
        if row.get("cat") == "Session" and name == "model_run":
            runs.append(_span(row, reader, name))
        elif row.get("cat") == "Node" and name.endswith(_KERNEL):
            events.append(_event(row, reader))
    runs.sort()
    events = _outermost(events)
    if not events:
        reader.refuse(
            "it has no '..._kernel_time' event", ("run the session before the profile ends")
        )
    by_run = _by_run(events, runs)
    counted = by_run[1:] if len(by_run) > 1 else by_run
    spans = runs[1:] if len(runs) > 1 else runs
    totals_s = tuple(sum(e.end - e.begin for e in run) * _US for run in counted)
    between_s = None
    if runs and len(runs) == len(by_run):
        gaps = [(end - begin) * _US - s for (begin, end), s in zip(spans, totals_s, strict=True)]
        between_s = max(0.0, median(gaps))
    # In the order of the first run that counts, then of later ones.
    times: dict[_Key, list[float]] = {}
    elements: dict[_Key, int | None] = {}
    for index, run in enumerate(counted):
        for event in run:
            # Several kernels of a node in a run, as in a loop around it, add up.
            taken = times.setdefault(event.key, [0.0] * len(counted))
            taken[index] += (event.end - event.begin) * _US
            elements.setdefault(event.key, event.elements)
    return reader.made(
        "ONNX Runtime profile",
        (
            _of_runs(key[0], taken, op=key[1], unit=key[2], index=key[3], elements=elements[key])
            for key, taken in times.items()
        ),
        len(counted),
        "the first run is a warm-up and is excluded"
        if len(by_run) > 1
        else "one run, the warm-up: run more to exclude it",
        totals_s=totals_s,
        between_s=between_s,
    )


def _by_run(events: Sequence[_Event], runs: Sequence[tuple[float, float]]) -> list[list[_Event]]:
    """Return the events by the run in which they begin; without runs, by occurrence number."""
    found: dict[int, list[_Event]] = {}
    begins = [begin for begin, _ in runs]
    seen: dict[_Key, int] = {}
    for event in events:
        if runs:
            run = bisect_right(begins, event.begin) - 1
            if run < 0 or event.begin > runs[run][1]:
                # Of a run whose end is not in the file.
                continue
        else:
            run = seen.get(event.key, 0)
            seen[event.key] = run + 1
        found.setdefault(run, []).append(event)
    return [found[run] for run in sorted(found)] or [list(events)]


def _outermost(events: Sequence[_Event]) -> list[_Event]:
    """Return the events nested in no other of their thread, by start."""
    kept: list[_Event] = []
    ends: dict[str, float] = {}
    for event in sorted(events, key=lambda e: (e.begin, -e.end)):
        # Clocks of whole microseconds let neighbours touch; nested events end no later.
        if event.end <= ends.get(event.thread, -1.0) and event.begin < ends[event.thread]:
            continue
        ends[event.thread] = event.end
        kept.append(event)
    return kept


def _event(row: dict[str, Any], reader: _Reader) -> _Event:
    name = reader.text(row["name"], "the name of an event").removesuffix(_KERNEL)
    begin, end = _span(row, reader, name or "a kernel")
    args = row.get("args")
    args = args if isinstance(args, dict) else {}
    number = _word(args.get("node_index", args.get("graph_index")))
    index = int(number) if len(number) < _DIGITS and number.isdecimal() else None
    key = (name, _word(args.get("op_name")), _word(args.get("provider")), index)
    thread = f"{row.get('pid')} {row.get('tid')}"
    return _Event(begin, end, thread, key, _elements(args.get("output_type_shape")))


def _span(row: dict[str, Any], reader: _Reader, name: str) -> tuple[float, float]:
    """Return start and end in microseconds, unconverted, so that adjacent whole ends agree."""
    found = []
    for key, what in (("ts", "the time stamp"), ("dur", "the time")):
        reader.seconds(row.get(key), _US, f"{what} of '{name}'")
        found.append(float(row[key]))
    return found[0], found[0] + found[1]


def _elements(shapes: Any) -> int | None:
    """Return the elements of the first output: ``[{"float": [1, 8]}]``."""
    if not isinstance(shapes, list) or not shapes or not isinstance(shapes[0], dict):
        return None
    dims = next(iter(shapes[0].values()), None)
    if not isinstance(dims, list) or not all(type(dim) is int and dim >= 0 for dim in dims):
        return None
    count = 1
    for dim in dims[:16]:
        count = min(count * min(dim, 2**62), 2**62)
    return count
