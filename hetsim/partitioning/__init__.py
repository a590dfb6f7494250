"""Partitioning: the verb ``partition``, its rules, its record and the validator."""
