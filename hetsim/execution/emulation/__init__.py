"""A plan in real time on devices that only take their modelled time."""
