"""Autoscaling: decisions on replicas, and serving while they start and stop."""
