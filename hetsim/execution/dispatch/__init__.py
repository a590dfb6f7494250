"""Dispatch of calls to devices, and recovery from failures."""
