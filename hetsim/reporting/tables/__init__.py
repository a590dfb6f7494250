"""Tables for terminals: one file per report."""
