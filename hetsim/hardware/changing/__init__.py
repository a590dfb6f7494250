"""Platforms as if they were others: figures changed, devices and links taken away."""
