"""Shapes and types of values, and their inference."""
