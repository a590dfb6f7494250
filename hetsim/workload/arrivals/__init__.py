"""When requests arrive, one kind a file."""
