"""ONNX files read: found, parsed, checked, made regular."""
