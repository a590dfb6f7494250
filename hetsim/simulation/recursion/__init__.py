"""A second engine for the clock's rules: requests one after another, without a heap of events."""
