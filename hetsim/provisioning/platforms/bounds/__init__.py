"""What excludes vectors for certain, whatever is done on them: bounds that are linear in counts."""
