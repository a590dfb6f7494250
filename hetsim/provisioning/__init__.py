"""How many of what is needed: the rate a platform sustains, redundancy, the cheapest platform."""
