"""Devices of the catalog, each loaded once by all tests that take many of them as they are."""

from __future__ import annotations

from functools import cache

from hetsim.hardware.catalog import load_device

loaded_device = cache(load_device)
