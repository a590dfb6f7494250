"""Reports: tables, JSON, traces, and the folder that contains them all."""
