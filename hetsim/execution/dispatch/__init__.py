"""Which call goes to which device next, and what becomes of what fails."""
