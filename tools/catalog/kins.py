"""What the kins are, in words for reports."""

from __future__ import annotations

from collections.abc import Sequence

_RUNTIMES: Sequence[tuple[str, str]] = (
    ("aihub-npu", "Qualcomm AI Hub on the NPU: QNN, TensorFlow Lite or ONNX Runtime"),
    ("aihub", "Qualcomm AI Hub off the NPU"),
    ("armnn-gpu", "Arm NN on OpenCL (MLPerf)"),
    ("edgetpu", "Edge TPU runtime of TensorFlow Lite"),
    ("framework-gpu", "PyTorch and TensorFlow 1 on CUDA (NVIDIA's examples)"),
    ("hailort", "HailoRT, pipelined at batch 8"),
    ("mlperf", "runtimes of MLPerf submitters"),
    ("ncnn-cpu", "ncnn"),
    ("ncnn-gpu", "ncnn on Vulkan"),
    ("onnxruntime-cpu", "ONNX Runtime from Python"),
    ("onnxruntime-gpu", "ONNX Runtime on CUDA from Python"),
    ("onnxruntime-tensorrt", "ONNX Runtime on TensorRT from Python"),
    ("openvino", "OpenVINO 2024"),
    ("paddle-cpu", "Paddle Lite"),
    ("paddle-gpu", "TensorRT 8.0 in Paddle Inference"),
    ("phone", "Paddle Lite, TNN and MNN on phones"),
    ("pytorch", "PyTorch from Python"),
    ("rknn", "RKNN, one core"),
    ("sophon", "Sophon's bmrt_test"),
    ("tensorrt", "TensorRT 6 to 10 (MLPerf, NVIDIA's BERT)"),
    ("tflite-cpu", "TensorFlow Lite and Arm NN (MLPerf)"),
)

_PIPELINED = ("hailort",)
"""Starts of the names of kins whose rows are rates of a pipeline at a small batch."""


def is_pipelined(kin: str) -> bool:
    """Whether rows of a kin are rates of a pipeline, the inverse of which is no latency.

    Rates in bulk are another matter: all units are busy there however a request goes through.
    """
    return kin.startswith(_PIPELINED)


def runtime_of(kin: str) -> str:
    """Return what software ran the rows of a kin."""
    return next((told for start, told in _RUNTIMES if kin.startswith(start)), kin)
