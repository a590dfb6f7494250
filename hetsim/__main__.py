"""``python -m hetsim`` is ``hetsim``."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # Python puts the working directory there, before all that hetsim is to import.
        del sys.path[0]
    from hetsim.cli.main import main

    main()
