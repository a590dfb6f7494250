"""Model zoo that comes with hetsim."""
