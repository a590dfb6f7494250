"""``python -m catalog.fidelity``: what the catalog predicts today beside what was measured.

Writes the points, ``docs/fidelity.md`` and its pictures. Where the new points are worse than those
of the file, in any point, it says which and writes nothing, unless ``--accept`` is given.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from catalog.fidelity.writing import CHECKOUT, renew
from hetsim.errors import HetsimError


def main(given: list[str] | None = None) -> int:
    """Run; return the exit code: 0 written, 5 worse than before, 3 where a file is missing."""
    parser = argparse.ArgumentParser(prog="python -m catalog.fidelity", description=__doc__)
    parser.add_argument("--accept", action="store_true", help="write points that are worse, too")
    parser.add_argument(
        "--tables-alone",
        action="store_true",
        help="leave the prices of whole problems, which take minutes, as they are",
    )
    parser.add_argument(
        "--root", type=Path, default=CHECKOUT, help="where data and docs are; this checkout"
    )
    asked = parser.parse_args(given)
    try:
        lost = renew(asked.root, accept=asked.accept, whole=not asked.tables_alone)
    except HetsimError as error:
        print(error, file=sys.stderr)
        return 3
    if lost:
        print(lost.text(), file=sys.stderr)
        if not asked.accept:
            print(
                "nothing was written; where this is meant, make fidelity ACCEPT=1", file=sys.stderr
            )
            return 5
    return 0


if __name__ == "__main__":
    sys.exit(main())
