"""Kernels of devices: ONNX Runtime, in a precision, timed one by one."""
