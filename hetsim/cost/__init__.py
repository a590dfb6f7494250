"""What nodes cost on a device: cost models, and which nodes are one kernel."""
