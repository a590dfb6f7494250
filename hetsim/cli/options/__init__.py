"""Options that several verbs share, by what they say."""
