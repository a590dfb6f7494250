"""How is a workload served? A deployment resolved to plans, played, and what is said of it."""
