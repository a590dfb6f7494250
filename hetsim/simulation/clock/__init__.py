"""Virtual clock without failures, which strategies are compared on."""
