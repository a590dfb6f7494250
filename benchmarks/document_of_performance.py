"""docs/performance.md, out of lines that benchmarks print, which are read from standard input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HEAD = """\
# How time and memory grow

Benchmarks print lines; `data/performance.jsonl` holds them as one machine with two shared cores
printed them, and this page is made of it:

    python benchmarks/partition.py | grep verb > data/performance.jsonl
    python benchmarks/traces.py >> data/performance.jsonl
    python benchmarks/document_of_performance.py docs/performance.md < data/performance.jsonl

Seconds are of a processor. *Before* is the same question by plain loops, in the same run, with the
same answer: partitions group by group, traces byte by byte. An exponent e says that time grows as
n^e from the least size of a table to the largest; 1 is linear.
"""

PARTITIONS = """\
## Partitions

`hetsim.partition` of a problem that is there, {least} to {most} nodes, two devices, one of which
takes 70 % of the nodes. Machine code is loaded (about half a second, once a process; from 50,000
nodes on, of `greedy` and `boundary` from 25,000) and not counted; the first time on a machine it is
made, in 5 to 15 seconds, and kept. Where edges join nodes anywhere in a graph,
searches of `convex`, `byoc` and `compact` come to the ends of their budgets, and take what they
took before. `compact` scans graphs of up to 10,000 nodes more often: hence its small exponents.
"""

TRACES = """\
## Timelines and traces

Events of a simulation and their critical path (*events*), and the file of a trace (*file*), each
in a process of its own. Before, each event and each entry was made, and the whole text.
"""


def document(lines: Iterable[dict[str, Any]]) -> str:
    """Return the page."""
    records = list(lines)

    def of(benchmark: str) -> list[dict[str, Any]]:
        return [one for one in records if one["benchmark"] == benchmark]

    parts = [HEAD, *_partitions(of("partition")), *_traces(of("traces"))]
    return "\n".join(parts)


def _partitions(lines: Sequence[dict[str, Any]]) -> list[str]:
    verb = [one for one in lines if one.get("verb") == "partition" and "nodes" in one]
    sizes = sorted({one["nodes"] for one in verb})
    growth = {
        (one["method"], one["shape"]): one
        for one in lines
        if one.get("verb") == "partition" and "exponent" in one
    }
    rows = []
    for one in verb:
        if one["nodes"] == sizes[-1]:
            grows = growth[one["method"], one["shape"]]
            rows.append(
                (one["method"], one["shape"], f"{one['plain_s']:.2f}", f"{one['cpu_s']:.2f}",
                 f"{one['plain_s'] / one['cpu_s']:.1f}", f"{grows['plain_exponent']:.2f}",
                 f"{grows['exponent']:.2f}")
            )  # fmt: skip
    made = [
        (one["shape"], f"{one['nodes']:,}", f"{one['cpu_s']:.3f}")
        for one in lines
        if one.get("verb") == "from_arrays"
    ]
    return [
        PARTITIONS.format(least=f"{sizes[0]:,}", most=f"{sizes[-1]:,}"),
        _table(
            ("method", "graph", f"before, s at {sizes[-1]:,}", "now, s", "times", "exponent before",
             "exponent now"),
            sorted(rows),
        ),
        "`Problem.from_arrays` of the same graphs, given as a list of edges:\n",
        _table(("graph", "nodes", "s"), made),
    ]  # fmt: skip


def _traces(lines: Sequence[dict[str, Any]]) -> list[str]:
    rows = [
        ("now" if one["way"] == "arrays" else "before", f"{one['events']:,}",
         f"{one['events_us']:.2f}", f"{one['file_us']:.1f}" if "file_us" in one else "",
         f"{one['file_mb']:.0f}" if "file_mb" in one else "", f"{one['most_mib']}")
        for one in sorted(lines, key=lambda one: ("file_us" in one, one["events"], one["way"]))
    ]  # fmt: skip
    head = ("", "events", "events, us each", "file, us an event", "file, MB", "most memory, MiB")
    return [TRACES, _table(head, rows)] if rows else []


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main() -> None:
    """Write the page to the file that is named."""
    lines = [json.loads(line) for line in sys.stdin if line.strip()]
    Path(sys.argv[1]).write_text(document(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
