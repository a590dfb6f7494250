"""What a request costs each device and link, as arrays."""
