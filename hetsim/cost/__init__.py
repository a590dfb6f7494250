"""Seconds of a kernel: cost models, profiles, calibration."""

DEFAULT_COST = "fitted"
"""The cost model that prices where nobody names one."""
