"""Published measurements: where they lie, their rows, and which of them are comparable."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hetsim.errors import UsageError

_CHECKOUT = Path(__file__).parents[2] / "data" / "measured"


def measured_folder(given: Path | None = None) -> Path:
    """Return the folder `given`, or the one of this checkout.

    Raises UsageError where it holds no rows: a wheel does not carry the measurements.
    """
    folder = _CHECKOUT if given is None else given
    if not (folder / "rows.jsonl.gz").is_file():
        raise UsageError(
            "there are no published measurements here",
            where=str(folder),
            hint="the source distribution has them, in data/measured",
        )
    return folder


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows, as the README of the folder describes them, in the order of the file."""
    with gzip.open(folder / "rows.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


ITEM_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "float32": 4,
        "tf32": 4,
        "float": 4,
        "float16": 2,
        "bfloat16": 2,
        "w8a16": 2,
        "int8": 1,
    }
)
"""Bytes of an activation. ``float`` is what the runtime likes best of float32 and float16."""

WEIGHT_BYTES: Mapping[str, int] = MappingProxyType({**ITEM_BYTES, "w8a16": 1})

_EXACT = {
    "w8a8": "int8",
    "w8a16": "w8a16",
    "int8": "int8",
    "uint8": "int8",
    "fp16": "float16",
    "fp32": "float32",
    "tf32": "tf32",
}
_PREFIXES = {
    "float (fp16 on npu)": "float16",
    "float16": "float16",
    "float32": "float32",
    "bfloat16": "bfloat16",
    "fp16 storage": "float",
    "int8 (some 4-bit": "int8",
    "int8 (nvidia code": "int8",
}


def precision_of(told: str) -> str | None:
    """Return the precision that a row's words mean; None where they leave it open or mix two."""
    words = told.lower()
    if words in _EXACT:
        return _EXACT[words]
    return next((mean for start, mean in _PREFIXES.items() if words.startswith(start)), None)


Row = Mapping[str, Any]

BULK_BATCH = 64
"""Stands for the batch of a rate whose source chose the batch and does not say it."""

_SEVERAL = {"MacBook Pro", "MacBook Air", "Intel"}
"""What is written in the place of a chip for machines with different ones."""

_SERVERS = re.compile("xeon|epyc", re.IGNORECASE)
"""Chips of which a machine has several, each in a socket of its own."""

_FAILED_ON_VULKAN = {"RK3588S"}
"""Chips on whose graphics VGG-16 took 0.6 ms and MobileNet 9: most runs of the table failed."""

_BROKE_OFF = {
    "Station-M2/ROC-RK3566-PC": {
        "ncnn_efficientnet_b0.onnx",
        "ncnn_efficientnetv2_b0.onnx",
        "ncnn_vision_transformer.onnx",
    },
}
"""By chip, what its graphics did not run to the end: ViT-B/32 in 0.96 of the time of ResNet-50,
where 20 other chips take 5.6 times as long and more; EfficientNet and its second version in 0.7 of
MobileNetV2's, where 33 and 29 others take 1.2 and 1.7 times as long and more."""

_SLOW_IN_INT8 = ("Mali-G52 MP6", "efficientnet_lite")
"""Graphics, and the start of the networks that took them 2.3 to 3.4 times as long in int8 as in
float32, in two rounds; the board's other networks took 0.6 to 0.9, these on three other boards 0.6
to 1.4."""

_DECODED_ELSEWHERE = ("ssd_mobilenet", "deeplab")
"""Starts of names of networks whose compiled parts for the Edge TPU end before box decoding, or
before resizing and picking classes of each pixel: the host's processor does the rest."""

_UNDECODED = {"ncnn_mobilenet_ssd.onnx", "ncnn_squeezenet_ssd.onnx"}
"""Graphs that lack ncnn's DetectionOutput: sorting and suppressing all boxes for each of 21 classes
was part of what was timed. (YOLO's decoding, which graphs lack as well, is of a few boxes.)"""

_UNSTABLE = 2.0
"""Slowest over fastest of a row's own loops beyond which their mean says little."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one row says, in the terms of its series.

    - `kin`: runtime, unit where it has several, and precision: ``ncnn-cpu-float``, ``rknn-int8``.
    - `chip`: as the row has it.
    - `unit`: what of the chip ran: ``cpu``, ``gpu``, ``npu``, ``tpu``.
    - `precision`: one of ``precisions.ITEM_BYTES``.
    - `where`: what else tells series of a chip apart, by name, sorted.
    - `network`: file name of the graph.
    - `seconds`: of the whole batch, on one device.
    - `source`: who measured it, as `source_of` says.
    """

    kin: str
    chip: str
    unit: str
    precision: str
    where: tuple[tuple[str, str], ...]
    network: str
    batch: int
    seconds: float
    source: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Why a row is compared with nothing: the reason, the same words for the same reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Told:
    """What a collection's rule makes of a row: `latency_ms` absent takes the row's own."""

    kin: str
    where: Mapping[str, object]
    batch: int | None = None
    latency_ms: float | None = None


_Rule = Callable[[Row, str], _Told | LeftOut]


def sample_of(row: Row) -> Sample | LeftOut:
    """Return what `row` says, or why it is left out."""
    rule = _RULES.get(row["kind"])
    if rule is None:
        return LeftOut("single figures, or runs that are no single device's")
    if not row.get("graphs"):
        return LeftOut("no graph stands for the network")
    if "+" in row["unit"]:
        return LeftOut("several units at once")
    flags = str(row.get("flags", "")).lower()
    if any(words in flags for words in ("same measurement", "second name", "proxy")):
        return LeftOut("the same measurement under a second name")
    precision = precision_of(row["precision"])
    if precision is None:
        return LeftOut("a precision that is mixed or not told")
    told = rule(row, precision)
    if isinstance(told, LeftOut):
        return told
    latency_ms = row.get("latency_ms") if told.latency_ms is None else told.latency_ms
    if not latency_ms or not math.isfinite(latency_ms):
        return LeftOut("no time")
    return Sample(
        kin=told.kin,
        chip=_chip(row),
        unit=row["unit"],
        precision=precision,
        where=tuple(sorted((k, str(v)) for k, v in told.where.items() if v not in (None, ""))),
        network=row["graphs"][0]["file"],
        batch=told.batch or row.get("batch") or 1,
        seconds=latency_ms / 1e3,
        source=source_of(row),
    )


def source_of(row: Row) -> str:
    """Return who measured a row on what: those of one source share a machine or a way to measure.

    Of MLPerf the submitter, of ncnn the board, whose owner sent its table; else the collection.
    """
    kind = str(row["kind"])
    if kind == "mlperf":
        return f"mlperf {str(_config(row).get('submitter')).lower()}"
    return f"ncnn {row['device']}" if kind == "ncnn" else kind


def _chip(row: Row) -> str:
    """What ran: cards of one chip and name that are held to different powers are apart."""
    chip: str = row["chip"].strip()
    if chip == "NVIDIA A100 PCIe" and "80" not in row["device"]:
        return f"{chip} 40 GB"
    return row["device"] if row["chip"] in _SEVERAL else chip


def _config(row: Row) -> Mapping[str, Any]:
    config: Mapping[str, Any] = row.get("config") or {}
    return config


def _sockets(row: Row) -> int:
    """How many processors of the row's chip shared its rate."""
    if not _SERVERS.search(row["chip"]):
        return 1
    told = row["device"] if row["kind"] == "openvino" else str(_config(row).get("cores"))
    found = re.match(r"(\d+) x ", told)
    return int(found[1]) if found else 1


def _bulk(row: Row, cards: int = 1) -> float | None:
    """Milliseconds of a batch of `BULK_BATCH` at a card's share of the row's rate."""
    rate = row.get("throughput_per_s")
    return 1e3 * BULK_BATCH * cards / rate if rate else None


def _ncnn(row: Row, precision: str) -> _Told | LeftOut:
    config = _config(row)
    if "Hyper-V" in row["chip"]:
        return LeftOut("a virtual machine's view of its host")
    build = config.get("variant")
    if row["unit"] == "cpu":
        where = {"threads": config["threads"], "powersave": config["powersave"], "build": build}
        return _ncnn_doubt(row) or _Told(f"ncnn-cpu-{precision}", where)
    if precision == "int8":
        return LeftOut("int8 on Vulkan, which ncnn runs as floats")
    chip, network = row["chip"].strip(), row["graphs"][0]["file"]
    if chip in _FAILED_ON_VULKAN or network in _BROKE_OFF.get(chip, ()):
        return LeftOut("runs that failed: large networks in less time than small ones")
    gpu = str(config.get("gpu", ""))
    if gpu.startswith("device "):
        return LeftOut("a GPU without a name")
    if re.search(r"llvmpipe|lavapipe|swiftshader|direct3d12", gpu, re.IGNORECASE):
        return LeftOut("graphics in software, or a virtual machine's")
    return _ncnn_doubt(row) or _Told(f"ncnn-gpu-{precision}", {"gpu": gpu, "build": build})


def _ncnn_doubt(row: Row) -> LeftOut | None:
    """Why a row's time is not that of its graph."""
    if row["graphs"][0]["file"] in _UNDECODED:
        return LeftOut("decoding of boxes that the graph lacks")
    fastest, slowest = _config(row).get("min_ms"), _config(row).get("max_ms")
    if fastest and slowest and slowest > _UNSTABLE * fastest:
        return LeftOut("loops of one run that differ by more than twice")
    return None


def _edge_runtime(runtime: str) -> str | None:
    """Which of the runtimes of small CPUs made a row of MLPerf, if one did."""
    if "armnn" in runtime:
        return "armnn"
    if not re.search("tflite|ruy|xnnpack|tensorflow", runtime):
        return None
    return next((name for name in ("xnnpack", "ruy") if name in runtime), "tflite")


def maker_of(row: Row) -> str:
    """Return who made the runtime of a row of MLPerf: the first of its words."""
    return re.split(r"[\s,:_]", str(row.get("runtime", "")).lower(), maxsplit=1)[0]


def held_back(row: Row) -> bool:
    """Whether a row of MLPerf is of a board held below its power."""
    return "maxq" in f"{row['source']} {_config(row).get('system')}".lower()


def _mlperf(row: Row, precision: str) -> _Told | LeftOut:
    metric, config = row["metric"], _config(row)
    runtime = str(row.get("runtime", "")).lower()
    unit, cards = row["unit"], max(1, int(config.get("accelerators") or 1))
    if "Server" in metric:
        return LeftOut("a rate under a bound on its tail")
    if held_back(row):
        return LeftOut("a board held below its power")
    if "H100 NVL" in row["device"]:
        return LeftOut("a card of more power under the name of another")
    edge = _edge_runtime(runtime) if unit == "cpu" else None
    if edge is not None:
        kin, where = f"tflite-cpu-{precision}", {"runtime": edge, "cores": config.get("cores")}
    elif unit == "gpu" and "Mali" in row["chip"]:
        chip, networks = _SLOW_IN_INT8
        network = row["graphs"][0]["file"]
        if precision == "int8" and chip in row["chip"] and network.startswith(networks):
            return LeftOut("int8 that takes much longer than float32")
        kin, where = f"armnn-gpu-{precision}", {}
    elif unit == "gpu" and ("tensorrt" in runtime or "trt" in runtime):
        kin, where = f"tensorrt-{precision}", {}
    else:
        kin, where = f"mlperf-{unit}-{precision}", {"runtime": maker_of(row)}
    if "MultiStream" in metric:
        if cards > 1:
            return LeftOut("several cards at once")
        return _Told(kin, where, batch=8)
    if "Offline" in metric:
        if edge is not None:
            return LeftOut("a rate of single samples in a queue")
        shared = cards if unit != "cpu" else _sockets(row)
        return _Told(kin, where, batch=BULK_BATCH, latency_ms=_bulk(row, shared) or math.nan)
    if cards > 1:
        return LeftOut("several cards at once")
    return _Told(kin, where)


_AIHUB_RUNTIMES = {
    "QNN": "qnn",
    "TFLite": "tflite",
    "ONNX": "onnxruntime",
    "ORT": "onnxruntime-precompiled",
}


def _aihub(row: Row, precision: str) -> _Told | LeftOut:
    if row["unit"] == "npu" and precision == "float16" and row["model"].startswith("segformer"):
        # On each chip 7 to 8 times as long as in int8, at the same graph.
        return LeftOut("a network that falls back on its unit")
    runtime = _AIHUB_RUNTIMES[row["runtime"].split()[0]]
    return _Told(f"aihub-{row['unit']}-{precision}", {"runtime": runtime})


def _aihub_old(row: Row, precision: str) -> _Told | LeftOut:
    return LeftOut("a release that a newer one of the same job follows")


def _openvino(row: Row, precision: str) -> _Told | LeftOut:
    kin = f"openvino-{row['unit']}-{precision}"
    if "throughput" in row["metric"]:
        return _Told(kin, {}, batch=BULK_BATCH, latency_ms=_bulk(row, _sockets(row)))
    # One request at a time is fastest on the cores of one socket, says OpenVINO's guide.
    return _Told(kin, {}, batch=1)


def _hailo(row: Row, precision: str) -> _Told | LeftOut:
    if row.get("batch") != 8:
        return LeftOut("a pipelined rate at batch 1, which is no latency")
    return _Told("hailort-int8", {}, latency_ms=8e3 / row["throughput_per_s"])


def _paddleclas(row: Row, precision: str) -> _Told | LeftOut:
    if row["unit"] == "gpu":
        return _Told(f"paddle-gpu-{precision}", {})
    return _Told(f"paddle-cpu-{precision}", {"threads": _config(row).get("threads")})


def _sophon(row: Row, precision: str) -> _Told | LeftOut:
    return _Told(f"sophon-{precision}", {})


def _rknn(row: Row, precision: str) -> _Told | LeftOut:
    rate = row.get("throughput_per_s")
    return _Told(f"rknn-{precision}", {}, latency_ms=1e3 / rate) if rate else LeftOut("no time")


def _isp(row: Row, precision: str) -> _Told | LeftOut:
    if "mobilenetv3" in row["model"].lower():
        return LeftOut("figures that their source calls into doubt")
    runtime = row["runtime"].lower()
    via = (
        "onnxruntime-tensorrt"
        if "tensorrt" in runtime
        else {"onnx runtime": "onnxruntime"}.get(runtime, runtime)
    )
    return _Told(f"{via}-{row['unit']}-{precision}", {"from": "python"})


def _phone(row: Row, precision: str) -> _Told | LeftOut:
    if (row["kind"], row["model"]) == ("tnn", "SqueezeNet 1.0"):
        # 0.6 of MobileNetV2's time on processors, where two other tables of phones (TNN's older one
        # and MNN's) have 1.8 to 2.2: 2.4 times less work, which is that of SqueezeNet 1.1.
        return LeftOut("a network of another name, by its times")
    config = _config(row)
    where = {
        "runtime": row["kind"],
        "precision": precision,
        "threads": config.get("threads"),
        "abi": config.get("abi"),
    }
    return _Told(f"phone-{row['unit']}-{'int8' if precision == 'int8' else 'float'}", where)


def _dle(row: Row, precision: str) -> _Told | LeftOut:
    rate, batch = row.get("throughput_per_s"), row.get("batch") or 1
    runtime = row["runtime"].lower().replace(" ", "")
    return _Told(
        f"framework-gpu-{precision}",
        {"runtime": runtime},
        latency_ms=1e3 * batch / rate if rate else None,
    )


def _trt_bert(row: Row, precision: str) -> _Told | LeftOut:
    return _Told(f"tensorrt-{precision}", {})


def _coral(row: Row, precision: str) -> _Told | LeftOut:
    config = _config(row)
    if row["unit"] == "cpu":
        return _Told(f"tflite-cpu-{precision}", {"runtime": "tflite", "from": "coral"})
    if row["graphs"][0]["file"].startswith(_DECODED_ELSEWHERE):
        return LeftOut("parts that the host's processor does")
    caller = "python" if "pycoral" in row["runtime"] else "c++"
    return _Told(f"edgetpu-{precision}", {"host": config.get("host"), "from": caller})


_RULES: Mapping[str, _Rule] = {
    "ncnn": _ncnn,
    "mlperf": _mlperf,
    "aihub": _aihub,
    "aihub-old": _aihub_old,
    "openvino": _openvino,
    "hailo": _hailo,
    "paddleclas": _paddleclas,
    "sophon": _sophon,
    "rknn": _rknn,
    "isp": _isp,
    "paddlelite": _phone,
    "tnn": _phone,
    "mnn": _phone,
    "dle": _dle,
    "trt-bert": _trt_bert,
    "coral": _coral,
}
