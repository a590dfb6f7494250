"""Verbs that compare plans: compare, explain, and effects of changes."""
