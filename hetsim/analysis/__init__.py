"""Verbs that weigh plans against each other: compare, explain, and what would help."""
