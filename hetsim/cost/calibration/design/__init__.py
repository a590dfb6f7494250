"""Networks that are measured: made of parts that real ones are made of, by a fixed design."""
