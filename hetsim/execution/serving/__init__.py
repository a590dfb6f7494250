"""Real workloads: requests by the wall clock, on real or emulated devices."""
