"""Files of requests that came somewhere, as they are published."""
