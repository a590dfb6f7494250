"""What pictures are drawn from, where a record does not hold it."""
