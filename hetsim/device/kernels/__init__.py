"""How a device computes: ONNX Runtime, in a precision, timed by kernel."""
