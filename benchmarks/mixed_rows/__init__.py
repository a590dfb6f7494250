"""Rows of several units at once: platforms, networks, and how each kind of row is planned."""
