"""Hardware: records of devices and links, the catalog, and routes between devices."""
