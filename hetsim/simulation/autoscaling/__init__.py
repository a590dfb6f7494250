"""Replicas that start and stop while requests come: who decides, and what becomes of requests."""
