"""What a device is: which nodes it takes, what it makes of them, and its properties."""
