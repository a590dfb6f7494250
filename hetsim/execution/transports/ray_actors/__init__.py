"""Devices as Ray actors, on one machine or on many."""
