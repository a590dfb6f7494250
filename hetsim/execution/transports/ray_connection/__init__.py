"""Which Ray a run uses, and that nothing of it is left behind."""
