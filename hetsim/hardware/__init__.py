"""What devices and links can do: records, the catalog, and routes between devices."""
