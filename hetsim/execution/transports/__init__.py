"""Transports: devices as threads of this process, or as Ray actors."""
