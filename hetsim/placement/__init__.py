"""Which device runs what: the verb ``plan``, strategies, and bounds that no plan beats."""
