"""What comes: streams of requests, when they arrive, what is asked of them, and who serves them."""
