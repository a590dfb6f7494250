"""Service of a workload: a deployment resolved to plans, simulated and summarised."""
