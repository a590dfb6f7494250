"""Bounds linear in counts, which exclude vectors whatever policy runs on them."""
