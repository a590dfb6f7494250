"""What a device gets and holds: subgraphs, weights, calls."""
