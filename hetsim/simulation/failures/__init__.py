"""Virtual clock with device failures."""
