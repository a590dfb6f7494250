"""What searches share: quick estimates, moves, models for solvers."""
