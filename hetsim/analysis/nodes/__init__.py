"""Facts of each node: its device, other devices, reasons, and cost."""
