"""Which replicas of which model on which devices."""
