"""Latencies of whole networks: user tables and the printed output of benchmark tools."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from hetsim.core.files import read_regular
from hetsim.errors import InvalidInput, UsageError, nearest
from hetsim.hardware.files.yaml_source import read_yaml
from hetsim.hardware.measurement import (
    FORM,
    ZOO,
    Measurement,
    read_time,
    split_model,
)
from hetsim.hardware.variants import ALIASES, PRECISIONS

LIMIT_BYTES = 2**24
"""Maximum bytes of a file: trtexec's output with all its warnings is below 1 MiB."""

MOST = 10_000
"""Maximum number of latencies in a file."""

KEYS = ("model", "latency", "batch", "precision", "threads")
_READ = (
    "read are CSV files, YAML files with 'measurements:' (model, latency, batch, precision, "
    "threads), and the printed output of trtexec, benchmark_app, perf_analyzer, "
    "onnxruntime_perf_test and benchncnn"
)


def measurements_of(given: str | os.PathLike[str] | Measurement) -> tuple[Measurement, ...]:
    """Return the measurements stated by one argument.

    ``MODEL:TIME[:PRECISION][:batch=N][:threads=N]``; ``FILE``, whose entries name their models; or
    ``MODEL:FILE``, the output of a tool that ran this model.

    Raises
    ------
    UsageError
        If the text has none of these forms, a time has no unit, or the file does not exist.
    InvalidInput
        If the file holds no latency, or none of the model.
    """
    if isinstance(given, Measurement):
        return (given,)
    text = os.fspath(given)
    model, parts = split_model(text)
    if not parts:
        return load_latencies(model)
    seconds = read_time(parts[0])
    if seconds is None:
        if not os.path.exists(parts[0]):
            raise UsageError(
                f"'{parts[0]}' in '{text}' is neither a time nor a file", hint=f"write {FORM}"
            )
        return tuple(qualified(one, parts[1:]) for one in load_latencies(parts[0], model))
    return (qualified(Measurement(model, seconds), parts[1:]),)


def qualified(measurement: Measurement, parts: list[str]) -> Measurement:
    """Return the measurement with the precision, batch size and threads of `parts`.

    Raises UsageError for other parts.
    """
    for part in parts:
        name, equals, number = part.strip().partition("=")
        word = ALIASES.get(name, name)
        if not equals and word in PRECISIONS:
            measurement = replace(measurement, precision=word)
        elif name in ("batch", "threads") and number.isascii() and number.isdigit():
            value = int(number[:9])
            if value < 1:
                raise UsageError(f"'{part}' is below 1", hint=f"write {FORM}")
            measurement = (
                replace(measurement, batch=value)
                if name == "batch"
                else replace(measurement, threads=value)
            )
        else:
            known = (*PRECISIONS, "batch=8", "threads=4")
            raise UsageError(
                f"'{part}' is not a precision, batch size or number of threads",
                hint=f"{nearest(word, known)}; write {FORM}",
            )
    return measurement


def load_latencies(
    source: str | os.PathLike[str], model: str | None = None
) -> tuple[Measurement, ...]:
    """Return the latencies of a file; the format is recognised by its content.

    - `model`: the model that ran, if the file does not name it; of several networks in the output,
    only the one of this name is read.

    Raises
    ------
    UsageError
        If there is no such file.
    InvalidInput
        If it has another format, or does not name the model. Linear in the file.
    """
    where = os.fspath(source)
    try:
        text = read_regular(source, LIMIT_BYTES).decode("utf-8-sig", "replace")
    except FileNotFoundError:
        raise UsageError("no such file", where=where, hint=f"write {FORM}, or a FILE") from None
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or error
        raise InvalidInput(f"cannot be read: {what}", where=where) from None
    reader = next((read for sign, read in _FORMATS if sign.search(text)), None)
    found = list(_table(where, text) if reader is None else reader(text, where))
    if not found:
        _refuse(where, "it holds no latency")
    if len(found) > MOST:
        _refuse(where, f"it holds {len(found)} latencies, above {MOST}")
    if model is not None:
        found = _of_model(found, model, where)
    folder = Path(where).parent
    each = [_located(one, folder).beside(folder, where) for one in found]
    missing = [one.model for one in each if not one.model.startswith(ZOO) and not _is_file(one)]
    if missing:
        raise InvalidInput(
            f"no ONNX model is known for {len(missing)} of {len(each)} latencies, "
            f"{Path(missing[0]).name or 'without a name'} first",
            where=where,
            hint="name the model: DEVICE=MODEL.onnx:FILE, or put the models beside the file",
        )
    return tuple(each)


def _is_file(one: Measurement) -> bool:
    return bool(one.model) and os.path.isfile(one.model)


def _of_model(found: list[Measurement], model: str, where: str) -> list[Measurement]:
    """Return the latencies of `model`; a single one may have any name."""
    stem = Path(model.removeprefix(ZOO)).stem
    if len({one.model for one in found}) > 1:
        alike = [one for one in found if Path(one.model.removeprefix(ZOO)).stem == stem]
        if not alike:
            names = ", ".join(sorted({one.model for one in found})[:5])
            _refuse(where, f"it holds no latency of '{stem}', but of {names}")
        found = alike
    return [replace(one, model=model) for one in found]


def _located(one: Measurement, folder: Path) -> Measurement:
    """Resolve a bare name to NAME.onnx next to the file, else to the zoo's network."""
    from hetsim.graph.zoo.models import names

    name = one.model
    if not name or name.startswith(ZOO) or name.endswith(".onnx") or os.path.isfile(name):
        return one
    if (folder / f"{name}.onnx").is_file():
        return replace(one, model=f"{name}.onnx")
    return replace(one, model=ZOO + name) if name in names() else one


def _refuse(where: str, what: str) -> NoReturn:
    raise InvalidInput(what, where=where, hint=_READ)


def entry_of(entry: Mapping[str, Any], where: str) -> Measurement:
    """Return the measurement of a row or mapping with `KEYS`. Raises InvalidInput."""
    told = {key: str(value).strip() for key, value in entry.items() if value not in (None, "")}
    unknown = [key for key in told if key not in KEYS]
    if unknown or not told.keys() >= {"model", "latency"}:
        what = f"unknown key '{unknown[0]}'" if unknown else "'model' or 'latency' is missing"
        raise InvalidInput(what, where=where, hint=f"the keys are {', '.join(KEYS)}")
    try:
        seconds = read_time(told["latency"])
        if seconds is None:
            raise UsageError(f"'{told['latency']}' is not a time", hint="write e.g. 4.1ms")
        parts = [told["precision"]] if "precision" in told else []
        parts += [f"{key}={told[key]}" for key in ("batch", "threads") if key in told]
        return qualified(Measurement(told["model"], seconds), parts)
    except UsageError as error:
        raise InvalidInput(error.what, where=where, hint=error.hint) from None


def _table(where: str, text: str) -> Iterable[Measurement]:
    """Return the rows of a CSV file with column names, or of a YAML list ``measurements:``."""
    first = text.lstrip().splitlines()[0] if text.strip() else ""
    if {"model", "latency"} <= {name.strip() for name in first.split(",")}:
        rows = csv.DictReader(io.StringIO(text.lstrip()), skipinitialspace=True)
        for at, row in enumerate(rows, start=2):
            if None in row or None in row.values():
                _refuse(f"{where}:{at}", "it has another number of cells than the first line")
            yield entry_of({key.strip(): value for key, value in row.items()}, f"{where}:{at}")
    elif "measurements:" in text:
        source = read_yaml(Path(where), where, holds="latencies", kind=InvalidInput)
        entries = source.data.get("measurements")
        if not isinstance(entries, list) or not all(isinstance(one, Mapping) for one in entries):
            _refuse(where, "'measurements' is not a list of mappings")
        for at, entry in enumerate(entries):
            yield entry_of(entry, f"{where}:{source.line(('measurements', at))}")
    else:
        _refuse(where, "the format is not known")


def _found(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return None if match is None else match[1].strip()


def _number(text: str | None, unit_s: float, where: str) -> float:
    try:
        return float(text or "") * unit_s
    except ValueError:
        _refuse(where, "it states no latency: the run did not end")


def _batch(text: str | None) -> int:
    return int(text[:9]) if text and text.isdigit() else 0


def _trtexec(text: str, where: str) -> list[Measurement]:
    """Return TensorRT's trtexec result: the median GPU compute time, without host copies.

    Format: https://github.com/NVIDIA/TensorRT/tree/main/samples/trtexec
    """
    streams = _found(r"\] Streams: (\d+)", text) or "1"
    if streams != "1":
        raise InvalidInput(
            f"it ran {streams} streams at once: its time includes waiting",
            where=where,
            hint="run trtexec with --infStreams=1",
        )
    median = _found(r"GPU Compute Time:.*?median = ([0-9.]+) ms", text)
    model = _found(r"\] Model: (\S+)$", text) or _found(r"--onnx=(\S+)", text) or ""
    words = (_found(r"\] Precision: (\S+)", text) or "").split("+")
    by_word = (("INT8", "int8"), ("FP16", "float16"), ("BF16", "bfloat16"), ("FP32", "float32"))
    # An engine that was loaded reports FP32 whatever it was built for.
    loaded = bool(_found(r"--loadEngine=(\S+)", text))
    precision = "" if loaded else next((to for word, to in by_word if word in words), "")
    batch = _batch(_found(r"Input inference shapes? ?: ?[^=\n]+=(\d+)x", text))
    return [Measurement(model, _number(median, 1e-3, where), precision, batch)]


def _benchmark_app(text: str, where: str) -> list[Measurement]:
    """Return OpenVINO's benchmark_app result: the median latency, else the mean, per request.

    Format: https://docs.openvino.ai/2024/learn-openvino/openvino-samples/benchmark-tool.html
    """
    hint = _found(r"PERFORMANCE_HINT: (?:PerformanceMode\.)?(\w+)", text)
    requests = _found(r"asynchronously, (\d+) inference requests", text)
    alone = requests == "1" or "Start inference synchronously" in text
    if not alone and (requests is not None or hint == "THROUGHPUT"):
        raise InvalidInput(
            f"it ran {requests or 'several'} requests at once: its latency includes waiting",
            where=where,
            hint="run benchmark_app with -hint latency -nireq 1",
        )
    # With -latency_percentile 99 it prints no median.
    each = (_found(rf"{name}:\s+([0-9.]+) ms", text) for name in ("Median", "Latency", "Average"))
    latency = next(filter(None, each), None)
    kind = _found(r"INFERENCE_PRECISION_HINT: (?:<Type: ')?(\w+)", text) or ""
    precision = {"f16": "float16", "f32": "float32", "bf16": "bfloat16"}.get(kind, kind)
    threads = _batch(_found(r"INFERENCE_NUM_THREADS: (\d+)", text))
    return [
        Measurement(
            _found(r"-m(?:odel)?[ =](\S+\.onnx)", text) or "",
            _number(latency, 1e-3, where),
            precision if precision in ("float16", "float32", "bfloat16") else "",
            _batch(_found(r"[Bb]atch size:? (\d+)", text)),
            threads,
        )
    ]


def _perf_analyzer(text: str, where: str) -> list[Measurement]:
    """Return Triton's perf_analyzer result at concurrency 1: server compute time, else p50.

    Format: https://github.com/triton-inference-server/perf_analyzer/tree/main/docs
    """
    blocks = re.split(r"^Request concurrency: ", text, flags=re.MULTILINE)[1:]
    alone = [block for block in blocks if re.match(r"1\s", block)]
    if not alone:
        raise InvalidInput(
            "it has no block 'Request concurrency: 1': latencies at others include waiting",
            where=where,
            hint="run perf_analyzer with --concurrency-range 1",
        )
    told = _found(r"compute infer (\d+) usec", alone[0]) or _found(
        r"(?:p50|Avg) latency: (\d+) usec", alone[0]
    )
    batch = _batch(_found(r"Batch size: (\d+)", text))
    return [
        Measurement(
            _found(r"perf_(?:analyzer|client)\b.*? -m (\S+)", text) or "",
            _number(told, 1e-6, where),
            batch=batch,
        )
    ]


def _onnxruntime(text: str, where: str) -> list[Measurement]:
    """Return ONNX Runtime's perf test result: P50 latency, else the mean inference time.

    Format: https://github.com/microsoft/onnxruntime/tree/main/onnxruntime/test/perftest
    """
    p50 = _found(r"P50 Latency(?: is|:) ?([0-9.e+-]+) ?s", text)
    mean = _found(r"Average (?:inference )?time cost(?: total)?: ?([0-9.e+-]+) ms", text)
    seconds = _number(mean, 1e-3, where) if p50 is None else _number(p50, 1.0, where)
    model = _found(r"onnxruntime_perf_test\b.*?(\S+\.onnx)", text) or ""
    threads = _batch(_found(r"Setting intra_op_num_threads to (\d+)", text))
    return [Measurement(model, seconds, threads=threads)]


_NCNN = re.compile(r"^\s*(\S+)\s+min =\s*([0-9.]+)\s+max =\s*([0-9.]+)\s+avg =\s*([0-9.]+)\s*$")


def _benchncnn(text: str, where: str) -> list[Measurement]:
    """Return ncnn's benchncnn means of each network, at batch 1; ``_int8`` ones are in int8.

    Format: https://github.com/Tencent/ncnn/tree/master/benchmark
    """
    on_gpu = (_found(r"^gpu_device = (-?\d+)", text) or "-1") != "-1"
    threads = 0 if on_gpu else _batch(_found(r"^num_threads = (\d+)", text))
    found = []
    for match in filter(None, map(_NCNN.match, text.splitlines())):
        name = match[1].removesuffix("_int8")
        precision = "int8" if match[1] != name else ""
        seconds = _number(match[4], 1e-3, where)
        found.append(Measurement(name, seconds, precision, 1, threads))
    return found


Reader = Callable[[str, str], Sequence[Measurement]]
_FORMATS: tuple[tuple[re.Pattern[str], Reader], ...] = (
    (re.compile(r"TensorRT\.trtexec|GPU Compute Time:"), _trtexec),
    (re.compile(r"^\[ ?INFO ?\] +(Median|Latency):", re.MULTILINE), _benchmark_app),
    (re.compile(r"^\*\*\* Measurement Settings \*\*\*", re.MULTILINE), _perf_analyzer),
    (re.compile(r"^Average (inference )?time cost( total)?:", re.MULTILINE), _onnxruntime),
    (re.compile(r"^loop_count = \d+", re.MULTILINE), _benchncnn),
)
"""Patterns that recognise each tool's output, and its reader."""
