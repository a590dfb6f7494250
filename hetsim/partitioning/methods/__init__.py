"""Merge methods: one file each."""
