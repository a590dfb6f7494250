"""A plan compiled to a folder, and run from it without the model."""
