"""Models that come with hetsim."""
