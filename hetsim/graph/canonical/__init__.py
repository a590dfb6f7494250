"""The canonical model: optimised offline, its nodes traced back to the file."""
