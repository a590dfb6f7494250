"""Subgraphs with explicit parameters and results, as OpenVINO draws them."""
