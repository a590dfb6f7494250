"""Reports: tables, JSON, traces, and the folder that keeps them together."""
