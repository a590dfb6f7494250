"""From nodes to tasks and back."""
