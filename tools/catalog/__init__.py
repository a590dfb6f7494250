"""Published measurements, and the device models that are fitted to them."""
