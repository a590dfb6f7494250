"""A model that was exported for one request at a time, made to take several at once."""
