"""Provisioning: the rate that a platform sustains, redundancy, and the cheapest platform."""
