"""What the machine has on which this runs."""

from __future__ import annotations

import os


def memory_bytes() -> int:
    """Return the machine's memory; 16 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 16 * 2**30


def resident_bytes() -> int:
    """Return the memory that this process holds; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError, IndexError):
        return 0
