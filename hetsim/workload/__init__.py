"""Workloads: streams of requests, arrivals, objectives, and deployments."""
