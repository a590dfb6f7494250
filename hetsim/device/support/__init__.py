"""Which nodes a device takes, by which rules, and why not the others."""
