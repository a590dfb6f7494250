"""The virtual clock without failures: what strategies are judged by."""
