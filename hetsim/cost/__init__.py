"""Seconds of a kernel: cost models, profiles, calibration."""

DEFAULT_COST = "fitted"
"""Default cost model."""
