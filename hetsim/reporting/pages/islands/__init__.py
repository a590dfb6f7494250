"""From a verb's record to what its report shows."""
