"""Node support of devices: rules, patterns, and reasons for refusals."""
