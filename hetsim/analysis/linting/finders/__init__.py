"""What may cost time: a finder a file, each of which yields suspects."""
