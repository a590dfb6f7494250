"""Two answers beside each other: what moved, and what of their questions differs."""
