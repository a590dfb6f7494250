"""Shared parts of searches: quick estimates, moves, solver models."""
