"""Partitions as files and pictures: ONNX, JSON records, Mermaid, DOT."""
