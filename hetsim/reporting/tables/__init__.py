"""Tables for terminals: one file a report."""
