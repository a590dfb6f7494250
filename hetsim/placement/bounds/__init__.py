"""Lower bounds on plans."""
