"""Rows that can be compared, and the points that they make."""

from __future__ import annotations

import pytest

from catalog.measured import LeftOut, Sample, sample_of
from catalog.points import Series, points_of

_NET = [{"file": "resnet50.onnx", "quality": "same", "why": ""}]
_ONE_THREAD = {"threads": 1, "powersave": 0}


def row(kind: str, **fields: object) -> dict[str, object]:
    base: dict[str, object] = {
        "kind": kind,
        "chip": "A chip",
        "device": "A board",
        "unit": "gpu",
        "precision": "int8",
        "metric": "latency_ms",
        "runtime": "TensorRT 8",
        "source": "https://somewhere",
        "model": "ResNet-50",
        "graphs": _NET,
        "latency_ms": 2.0,
        "config": {},
    }
    return {**base, **fields}


def sample(kind: str, **fields: object) -> Sample:
    found = sample_of(row(kind, **fields))
    assert isinstance(found, Sample), found
    return found


def reason(kind: str, **fields: object) -> str:
    found = sample_of(row(kind, **fields))
    assert isinstance(found, LeftOut), found
    return found.reason


def test_threads_and_builds_of_ncnn_are_series():
    config = {"threads": 4, "powersave": 2, "variant": None}
    found = sample("ncnn", unit="cpu", precision="fp16 storage", config=config)
    assert (found.kin, found.precision) == ("ncnn-cpu-float", "float")
    assert found.where == (("powersave", "2"), ("threads", "4"))


def test_rates_become_times():
    assert sample("rknn", unit="npu", throughput_per_s=50.0).seconds == pytest.approx(0.02)
    hailo = sample("hailo", unit="npu", batch=8, throughput_per_s=400.0)
    assert (hailo.batch, hailo.seconds) == (8, pytest.approx(0.02))
    bulk = sample("openvino", metric="fps, throughput hint", throughput_per_s=64.0)
    assert (bulk.batch, bulk.seconds) == (64, pytest.approx(1.0))


def test_a_socket_has_its_share_of_a_server_s_rate_and_all_of_its_latency():
    two = {"unit": "cpu", "chip": "Intel Xeon Platinum 8480+", "device": "2 x Intel Xeon 8480+"}
    bulk = sample("openvino", **two, metric="fps, throughput hint", throughput_per_s=128.0)
    assert (bulk.batch, bulk.seconds) == (64, pytest.approx(1.0))
    assert sample("openvino", **two, metric="latency_ms median, latency hint").seconds == 0.002
    offline = {"metric": "samples/s (MLPerf Offline)", "throughput_per_s": 256.0}
    for chip, cores, sockets in (
        ("Intel Xeon Platinum 8380H", "4 x 28", 4),
        ("AMD EPYC 9654", "2 x 96", 2),
        # No sockets: a list of cores, as some submissions of laptops have it.
        ("Apple M1 Pro", "10 x 10", 1),
        ("Intel Xeon Platinum 8592+", None, 1),
    ):
        of_chip = {"unit": "cpu", "chip": chip, "config": {"cores": cores}}
        found = sample("mlperf", **of_chip, **offline, runtime="PyTorch")
        assert found.seconds == pytest.approx(64 * sockets / 256.0)


def test_rows_like_those_left_out_are_kept():
    config = _ONE_THREAD
    steady = {**config, "min_ms": 3.0, "max_ms": 6.0}
    assert sample("ncnn", unit="cpu", config=steady).seconds == 0.002
    yolo = [{"file": "ncnn_mobilenet_yolo.onnx"}]
    assert sample("ncnn", unit="cpu", config=config, graphs=yolo).network == yolo[0]["file"]
    lite = [{"file": "efficientnet_lite4.onnx"}]
    for chip, precision in (("ARM Mali G52MP8(8EE)", "int8"), ("Arm Mali-G52 MP6 GPU", "fp32")):
        of_mali = sample("mlperf", chip=chip, precision=precision, graphs=lite)
        assert of_mali.kin.startswith("armnn-gpu-")
    segformer = {"unit": "npu", "model": "segformer_base", "runtime": "QNN"}
    assert sample("aihub", precision="w8a8", **segformer).precision == "int8"
    assert sample("tnn", model="squeezenet_v1.0", precision="float16").kin == "phone-gpu-float"
    deeplab = [{"file": "deeplab_v3_mobilenet_v2_513.onnx"}]
    assert sample("coral", unit="cpu", graphs=deeplab).kin == "tflite-cpu-int8"


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("ncnn", {"graphs": None}, "no graph"),
        ("blog", {}, "single figures"),
        ("aihub", {"unit": "npu+cpu"}, "several units"),
        ("aihub", {"unit": "npu", "flags": ["same figure as X: a proxy"]}, "second name"),
        ("mlperf", {"metric": "MLPerf Server"}, "bound on its tail"),
        (
            "mlperf",
            {"chip": "Arm Mali-G52 MP6 GPU", "graphs": [{"file": "efficientnet_lite4.onnx"}]},
            "longer than float32",
        ),
        ("mlperf", {"config": {"system": "A100_MaxQ"}}, "below its power"),
        (
            "mlperf",
            {"config": {"accelerators": 8}, "metric": "MLPerf SingleStream"},
            "several cards",
        ),
        ("ncnn", {"config": {"gpu": "device 0"}, "precision": "fp16 storage"}, "without a name"),
        (
            "ncnn",
            {"config": {"gpu": "llvmpipe (LLVM 15)"}, "precision": "fp16 storage"},
            "in software",
        ),
        ("ncnn", {"chip": "Hyper-V Linux Guest"}, "virtual machine"),
        ("ncnn", {"config": {"gpu": "Mali"}}, "Vulkan"),
        (
            "ncnn",
            {"chip": "RK3588S", "config": {"gpu": "Mali-G610"}, "precision": "fp16 storage"},
            "runs that failed",
        ),
        (
            "ncnn",
            {
                "chip": "Station-M2/ROC-RK3566-PC",
                "config": {"gpu": "Mali-G52"},
                "precision": "fp16 storage",
                "graphs": [{"file": "ncnn_vision_transformer.onnx"}],
            },
            "runs that failed",
        ),
        (
            "ncnn",
            {"unit": "cpu", "config": _ONE_THREAD, "graphs": [{"file": "ncnn_mobilenet_ssd.onnx"}]},
            "boxes",
        ),
        (
            "ncnn",
            {"unit": "cpu", "config": {**_ONE_THREAD, "min_ms": 3.0, "max_ms": 6.1}},
            "more than twice",
        ),
        (
            "aihub",
            {"unit": "npu", "model": "segformer_base", "precision": "float (fp16 on NPU)"},
            "falls back",
        ),
        ("tnn", {"model": "SqueezeNet 1.0", "precision": "float16"}, "another name"),
        ("coral", {"unit": "tpu", "graphs": [{"file": "ssd_mobilenet_v1_300.onnx"}]}, "host's"),
        ("coral", {"graphs": [{"file": "deeplab_v3_mobilenet_v2_513.onnx"}]}, "host's"),
        ("hailo", {"batch": 1}, "pipelined"),
        ("isp", {"model": "mobilenetv3_large"}, "doubt"),
        ("mlperf", {"precision": "int8,fp16"}, "mixed"),
        ("trt-bert", {"latency_ms": None}, "no time"),
    ],
)
def test_what_is_left_out_says_why(kind, fields, words):
    assert words in reason(kind, **fields)


def bert(ms: float, chip: str = "NVIDIA L4", network: str = "bert.onnx") -> dict[str, object]:
    return {
        "kind": "trt-bert",
        "chip": chip,
        "device": chip,
        "unit": "gpu",
        "precision": "int8",
        "batch": 8,
        "graphs": [{"file": network}],
        "latency_ms": ms,
    }


def test_a_point_is_the_median_with_its_spread():
    points = points_of([bert(1.0), bert(2.0), bert(4.0), bert(3.0, network="a.onnx")])
    ((series, found),) = points.series.items()
    assert series == Series("tensorrt-int8", "NVIDIA L4", "gpu", "int8")
    single, several = found
    assert (single.network, single.rows, single.spread) == ("a.onnx", 1, None)
    assert (several.seconds, several.rows) == (0.002, 3)
    assert (several.lowest, several.highest) == (0.001, 0.004)
    assert several.spread == pytest.approx(1.0)  # the median of 0, 1 and 1 octaves


def test_chips_of_several_names_are_one():
    points = points_of([bert(1.0), bert(3.0, "L4 PCIe")], {"L4 PCIe": "NVIDIA L4"})
    ((_, (found,)),) = points.series.items()
    assert (found.rows, found.seconds) == (2, 0.002)


def test_every_row_is_in_one_point_or_left_out_for_one_reason(rows, points):
    used = sum(point.rows for found in points.series.values() for point in found)
    assert used + sum(points.left_out.values()) == len(rows)
    assert points.left_out["no graph stands for the network"] == 3201
    assert points.left_out["several units at once"] == 96
    assert points.left_out["a virtual machine's view of its host"] == 165
    assert points.left_out["a GPU without a name"] == 35
    assert len(points.kin("tensorrt-int8")) == 21
    for series, found in points.series.items():
        keys = [(point.network, point.batch) for point in found]
        assert keys == sorted(set(keys))
        assert all(p.lowest <= p.seconds <= p.highest for p in found), series
