"""``python -m hetsim.verifying FILE``.

Exit code 0 where it holds, 5 where not, 3 where broken, 1 where there is no memory for it.
"""

from __future__ import annotations

import sys

from hetsim.verifying.checking import verify
from hetsim.verifying.node import Broken, Untrue


def main(arguments: list[str]) -> int:
    """Check one file; print what holds and what is on trust."""
    if len(arguments) != 1:
        print("usage: python -m hetsim.verifying FILE", file=sys.stderr)
        return 2
    try:
        print(verify(arguments[0]).report())
    except OSError as wrong:
        print(f"{arguments[0]}: {wrong.strerror}", file=sys.stderr)
        return 3
    except MemoryError:
        print(f"{arguments[0]}: the memory is used up", file=sys.stderr)
        return 1
    except Broken as wrong:
        print(f"no certificate: {wrong}", file=sys.stderr)
        return 3
    except Untrue as wrong:
        print(f"certificate does not hold: {wrong}", file=sys.stderr)
        return 5
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
