"""Which shape and type every value has, and what is needed to tell."""
