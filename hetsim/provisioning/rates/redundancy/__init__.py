"""What is left of a deployment when devices are down, and which of them are alike in that."""
