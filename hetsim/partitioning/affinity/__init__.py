"""What a user wants where: pins and exclusions, from Python or from a file."""
