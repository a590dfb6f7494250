"""Figures of the machine at hand: generated networks, timed, and the parameters fitted to them."""
