"""What is in a model: ONNX in, a graph with shapes and work, subgraphs out."""
