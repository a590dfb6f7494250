"""Replicas of models and the devices that they run on."""
