"""``python -m hetsim`` is ``hetsim``."""

from __future__ import annotations

from hetsim.cli.main import main

if __name__ == "__main__":
    main()
