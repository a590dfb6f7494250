"""Virtual clock without failures, by which strategies are compared."""
