"""Problem: a DAG, devices and times, transfers, and memory limits."""
