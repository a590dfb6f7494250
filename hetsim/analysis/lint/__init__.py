"""What costs time, and which change takes it away, planned again."""
