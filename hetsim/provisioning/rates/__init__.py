"""Rates that a platform sustains within its objectives, each with its proof."""
