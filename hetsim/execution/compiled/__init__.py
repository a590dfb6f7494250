"""Compiled plans: a folder that runs without the model."""
