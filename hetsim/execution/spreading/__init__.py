"""Much work of one kind, spread over the cores of a Ray."""
