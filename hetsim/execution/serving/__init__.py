"""A workload for real: requests by the wall clock, on devices that run or are emulated."""
