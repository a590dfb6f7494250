"""The virtual clock where devices fail."""
