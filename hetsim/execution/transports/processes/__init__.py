"""Devices as processes of this machine, without Ray."""
