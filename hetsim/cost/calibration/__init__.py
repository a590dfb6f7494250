"""Calibration of this machine: generated networks, timed, and parameters fitted to them."""
