"""Which signals ask a process to end, besides Ctrl-C."""

from __future__ import annotations

import signal

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Where the system has them: being told to, and the terminal closed."""
