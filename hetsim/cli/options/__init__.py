"""Options that several verbs share, by subject."""
