"""Reading of ONNX files: found, parsed, checked, normalised."""
