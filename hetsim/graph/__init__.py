"""Models: ONNX files read into a graph with shapes and work, and subgraphs extracted."""
