"""Placement: the verb ``plan``, strategies, and lower bounds."""
