"""``make fuzz``: files that are broken in drawn ways, given to every verb that takes them.

What failed before, in the repository and in ``build/fuzz``, goes first. Each case is told by its
kind, seed and number: the same three give the same files.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fuzz.judging import CODES, Call
from fuzz.kept import cases_in, keep
from fuzz.kinds.registry import KINDS
from fuzz.pool import Pool

CORPUS = Path(__file__).parent / "corpus"
KEPT = Path("build/fuzz")
_OF_A_SORT = 3
"""Cases that are kept of faults that look alike."""


def main() -> int:
    """Play the cases that are asked for; 1 where any of them shows a fault."""
    options = _options()
    if options.again:
        return _play(
            "again", options.again, ({"folder": str(one.resolve())} for one in options.again)
        )
    kept = [*cases_in(CORPUS), *cases_in(KEPT)]
    asked = [{"folder": str(one.resolve())} for one in kept]
    wrong = _play("kept", kept, asked) if kept else 0
    for kind in options.kind:
        numbers = range(options.start, options.start + options.count)
        drawn = [
            {"kind": kind, "seed": options.seed, "number": number, "verbs": options.verbs or None}
            for number in numbers
        ]
        wrong |= _play(
            kind, [KEPT / f"{kind}-{options.seed}-{number}" for number in numbers], drawn
        )
    return wrong


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("--count", type=int, default=1000, help="cases of each kind")
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--verbs", type=int, default=2, help="calls of a case; 0: all verbs")
    parser.add_argument("--again", type=Path, nargs="*", help="folders of cases that were kept")
    options = parser.parse_args()
    options.kind = options.kind or list(KINDS)
    return options


def _play(title: str, folders: Iterable[Path], asked: Iterable[Mapping[str, Any]]) -> int:
    told: Counter[str] = Counter()
    sorts: Counter[str] = Counter()
    slowest = most = 0.0
    with tempfile.TemporaryDirectory(prefix="hetsim-fuzz-") as root, Pool(Path(root)) as pool:
        for cases, (folder, one) in enumerate(zip(folders, asked, strict=False), 1):
            if sys.stderr.isatty():
                print(f"\r{title} {cases}", end="", file=sys.stderr)
            for call in pool.play(one):
                told[_outcome(call)] += 1
                slowest, most = max(slowest, call.seconds), max(most, call.peak_bytes)
                if not call.fault:
                    continue
                sort = call.sort()
                sorts[sort] += 1
                if sorts[sort] <= _OF_A_SORT:
                    print(
                        f"{folder}: hetsim {' '.join(call.words)}: {call.fault}\n{call.said}",
                        flush=True,
                    )
                    if "folder" not in one:
                        keep(
                            pool.case,
                            [call.words],
                            {"fault": call.fault, "said": call.said},
                            folder,
                        )
    counts = ", ".join(f"{count} {name}" for name, count in sorted(told.items()))
    print(f"{title}: {cases} cases, {told.total()} calls: {counts}; ", end="")
    print(f"slowest {slowest:.1f} s, most {most / 1e6:.0f} MB")
    for sort, count in sorts.most_common():
        print(f"  {count} x {sort}")
    sys.stdout.flush()
    return int(bool(sorts))


def _outcome(call: Call) -> str:
    return "FAULT" if call.fault else CODES.get(call.code or 0, "failed")


if __name__ == "__main__":
    sys.exit(main())
