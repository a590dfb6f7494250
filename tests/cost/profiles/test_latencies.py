"""Latencies of networks, in files of one's own and as benchmark tools print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetsim.cost.profiles.latencies import load_latencies, measurements_of
from hetsim.errors import InvalidInput, UsageError
from hetsim.hardware.measurement import Measurement

TRTEXEC = """\
&&&& RUNNING TensorRT.trtexec [TensorRT v8603] # trtexec --onnx=net.onnx --fp16
[03/28/2024-07:10:11] [I] === Model Options ===
[03/28/2024-07:10:11] [I] Format: ONNX
[03/28/2024-07:10:11] [I] Model: net.onnx
[03/28/2024-07:10:11] [I] === Build Options ===
[03/28/2024-07:10:11] [I] Precision: FP32+FP16
[03/28/2024-07:10:11] [I] Input build shape: x=8x3x224x224+8x3x224x224+8x3x224x224
[03/28/2024-07:10:11] [I] === Inference Options ===
[03/28/2024-07:10:11] [I] Batch: Explicit
[03/28/2024-07:10:11] [I] Input inference shape: x=8x3x224x224
[03/28/2024-07:10:47] [I] === Performance summary ===
[03/28/2024-07:10:47] [I] Throughput: 130.298 qps
[03/28/2024-07:10:47] [I] Latency: min = 5.3 ms, max = 13.3 ms, mean = 7.6 ms, median = 7.16 ms
[03/28/2024-07:10:47] [I] H2D Latency: min = 0.1 ms, max = 0.2 ms, mean = 0.1 ms, median = 0.1 ms
[03/28/2024-07:10:47] [I] GPU Compute Time: min = 5.3 ms, max = 13.3 ms, median = 7.14 ms
[03/28/2024-07:10:47] [I] Total GPU Compute Time: 2.96536 s
"""

BENCHMARK_APP = """\
[Step 5/11] Resizing model to match image sizes and given batch
[ INFO ] Model batch size: 1
[Step 7/11] Loading the model to the device
[Step 8/11] Querying optimal runtime parameters
[ INFO ] Model:
[ INFO ]   NETWORK_NAME: net
[ INFO ]   PERFORMANCE_HINT: LATENCY
[ INFO ]   INFERENCE_NUM_THREADS: 4
[ INFO ]   INFERENCE_PRECISION_HINT: <Type: 'float16'>
[Step 10/11] Measuring performance (Start inference asynchronously, 1 inference requests, \
limits: 60000 ms duration)
[Step 11/11] Dumping statistics report
[ INFO ] Count:          1413 iterations
[ INFO ] Duration:       15008.32 ms
[ INFO ] Latency:
[ INFO ]    Median:      10.45 ms
[ INFO ]    Average:     10.62 ms
[ INFO ] Throughput:     94.15 FPS
"""

PERF_ANALYZER = """\
*** Measurement Settings ***
  Batch size: 4
  Measurement window: 5000 msec
  Stabilizing using average latency

Request concurrency: 1
  Client:
    Request count: 6000
    Throughput: 1200 infer/sec
    Avg latency: 832 usec (standard deviation 197 usec)
    p50 latency: 839 usec
  Server:
    Inference count: 7115
    Avg request latency: 422 usec (overhead 155 usec + queue 51 usec + compute input 71 usec + \
compute infer 115 usec + compute output 30 usec)

Request concurrency: 2
  Client:
    p50 latency: 1639 usec

Inferences/Second vs. Client Average Batch Latency
Concurrency: 1, throughput: 1200 infer/sec, latency 832 usec
"""

ONNX_RUNTIME = """\
Setting intra_op_num_threads to 2
Session creation time cost: 0.127918 s
First inference time cost: 20 ms
Total inference time cost: 1.44871 s
Total inference requests: 10
Average inference time cost: 144.871 ms
Total inference run time: 1.44916 s
Min Latency: 0.14 s
P50 Latency: 0.143 s
"""

BENCHNCNN = """\
loop_count = 8
num_threads = 4
powersave = 2
gpu_device = -1
cooling_down = 1
          squeezenet  min =   10.74  max =   11.33  avg =   11.08
            resnet18  min =   27.04  max =   29.33  avg =   28.18
       resnet18_int8  min =   13.01  max =   14.65  avg =   13.58
             net_too  min =    1.04  max =    1.33  avg =    1.18
"""


def put(folder: Path, name: str, text: str) -> Path:
    (folder / "net.onnx").touch()
    (folder / name).write_text(text)
    return folder / name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TRTEXEC, Measurement("net.onnx", 7.14e-3, "float16", 8)),
        (BENCHMARK_APP, Measurement("", 10.45e-3, "float16", 1, 4)),
        (
            BENCHMARK_APP.replace("Median:      10.45", "99 percentile: 17.5"),
            Measurement("", 10.62e-3, "float16", 1, 4),
        ),
        (PERF_ANALYZER, Measurement("", 115e-6, batch=4)),
        (ONNX_RUNTIME, Measurement("", 0.143, threads=2)),
        (ONNX_RUNTIME.replace("P50", "P90"), Measurement("", 0.144871, threads=2)),
        # As newer versions print it.
        (ONNX_RUNTIME.replace("cost: 144", "cost total: 144"), Measurement("", 0.143, threads=2)),
    ],
)
def test_the_output_of_a_tool_is_recognised_by_its_content(
    tmp_path: Path, text: str, expected: Measurement
) -> None:
    path, model = put(tmp_path, "out.txt", text), str(tmp_path / "net.onnx")
    [found] = measurements_of(f"{model}:{path}")
    assert found.seconds == pytest.approx(expected.seconds)
    stated = (expected.precision, expected.batch, expected.threads)
    assert (found.precision, found.batch, found.threads) == stated
    assert (found.model, found.source) == (model, str(path))
    if expected.model:
        assert load_latencies(path) == (found,)
    else:
        with pytest.raises(InvalidInput, match=r"no ONNX model is known for 1 of 1 latencies"):
            load_latencies(path)


def test_each_network_of_benchncnn_is_the_models_or_the_zoos(tmp_path: Path) -> None:
    path = put(tmp_path, "ncnn.txt", BENCHNCNN)
    found = measurements_of(f"zoo:resnet18:{path}")
    assert [(one.seconds, one.precision) for one in found] == [
        (pytest.approx(28.18e-3), ""),
        (pytest.approx(13.58e-3), "int8"),
    ]
    with pytest.raises(InvalidInput, match="for 1 of 4 latencies, net_too first"):
        load_latencies(path)
    (tmp_path / "net_too.onnx").touch()
    models = [one.model for one in load_latencies(path)]
    last = str(tmp_path / "net_too.onnx")
    assert models == ["zoo:squeezenet", "zoo:resnet18", "zoo:resnet18", last]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "l.csv",
            "\ufeffmodel,latency,batch,precision,threads\nnet.onnx,4.1ms,8,fp16,\nzoo:vgg19,2s,,,\n",
        ),
        (
            "l.yaml",
            "measurements:\n- {model: net.onnx, latency: 4.1ms, batch: 8, precision: fp16}\n"
            "- {model: 'zoo:vgg19', latency: 2s}\n",
        ),
    ],
)
def test_a_table_names_its_models(tmp_path: Path, name: str, text: str) -> None:
    path = put(tmp_path, name, text)
    net = str(tmp_path / "net.onnx")
    assert load_latencies(path) == (
        Measurement(net, 4.1e-3, "float16", 8, source=str(path)),
        Measurement("zoo:vgg19", 2.0, source=str(path)),
    )


def test_one_text_states_one_measurement() -> None:
    [found] = measurements_of("zoo:resnet50:4.1ms:int8:batch=8:threads=4")
    assert found == Measurement("zoo:resnet50", 4.1e-3, "int8", 8, 4)
    assert measurements_of(str(found)) == (found,)
    assert measurements_of(found) == (found,)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BENCHMARK_APP.replace(", 1 inf", ", 4 inf"), "it ran 4 requests at once"),
        (TRTEXEC.replace("Batch: Explicit", "Streams: 4"), "it ran 4 streams at once"),
        (PERF_ANALYZER.replace("concurrency: 1", "concurrency: 3"), "'Request concurrency: 1'"),
        (TRTEXEC.replace("GPU Compute Time: min", "GPU"), "it states no latency"),
        ("model,latency\nnet.onnx,4.1\n", r"l\.txt:2: the time '4\.1' has no unit; write 4\.1ms"),
        ("model,latency\nnet.onnx,4.1ms,8\n", "another number of cells"),
        ("model,latency,precision\nnet.onnx,4.1ms,int9\n", "'int9' is not a precision"),
        ("measurements:\n- {model: net.onnx}\n", "'model' or 'latency' is missing"),
        ("some text", "the format is not known; read are CSV files"),
    ],
)
def test_what_holds_no_usable_latency_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        load_latencies(put(tmp_path, "l.txt", text), str(tmp_path / "net.onnx"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("net.onnx:4.1", "has no unit"),
        ("net.onnx:none.txt", "is neither a time nor a file"),
        ("net.onnx:4ms:batch=0", "is below 1"),
        ("net.onnx:4ms:in8", "did you mean 'int8'"),
        ("net.onnx:0ms", "is not above 0 s"),
        ("none.csv", "no such file"),
    ],
)
def test_a_wrong_text_is_told_the_form(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        measurements_of(text)
