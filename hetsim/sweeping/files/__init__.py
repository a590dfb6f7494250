"""What the YAML file of a grid may say."""
