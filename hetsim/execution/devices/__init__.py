"""What a device gets and holds: subgraphs, weights, the steps that it runs."""
