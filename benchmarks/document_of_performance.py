"""docs/performance.md, out of lines that benchmarks print, which are read from standard input."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

HEAD = """\
# How time and memory grow

Benchmarks print lines; `data/performance.jsonl` holds them as one machine with two shared cores
printed them, and this page is made of it:

    python benchmarks/partition.py | grep verb > data/performance.jsonl
    python benchmarks/traces.py >> data/performance.jsonl
    python benchmarks/growth.py >> data/performance.jsonl
    python benchmarks/bounds.py >> data/performance.jsonl
    python benchmarks/loading.py --nodes 1000 10000 100000 >> data/performance.jsonl
    python benchmarks/document_of_performance.py docs/performance.md < data/performance.jsonl

Seconds are of a processor. *Before* is the same question by plain loops, in the same run, with the
same answer: partitions group by group, traces byte by byte. An exponent e says that time grows as
n^e from the least size of a table to the largest; 1 is linear.
"""

PARTITIONS = """\
## Partitions

`hetsim.partition` of a problem that is there, {least} to {most} nodes, two devices, one of which
takes 70 % of the nodes. Machine code is loaded (0.5 s once a process) and not counted. It is used
from scans of 200,000 nodes in all on, and made, in 1 to 2 seconds, at the first on a machine.
Edges of *uniform random* join nodes anywhere: for methods that contract or level. `compact` scans
graphs of up to 10,000 nodes more often: hence its small exponents. `boundary`, `greedy` and `stage`
have no machine code: *before* and *now* are two runs of the same code.
"""

VERBS = """\
## Every verb

Decoder layers of an LLM as exporters write them, in small ops, on `rock-5b`: a CPU, a GPU and an
NPU. Each figure is of a verb's first call in a process of its own, which has what is asked about;
what machine code takes to load is once a process, and not counted. What plays, checks, writes or
explains a plan has that of `hetero`, of a quarter as many subgraphs as there are nodes. `capacity`,
`place` and `recommend` have the file of the model, which they load and price. Beside it,
on the same file or the same graph and devices: ONNX Runtime, OpenVINO's CPU, its HETERO plugin's
cut and torch.fx's partitioner. *> 100* was stopped after so many seconds. An empty place was not
measured.
Other work ran on the machine meanwhile: a figure may be a quarter too large.
Memory is what the process grew by at most, with the most nodes that were answered.
"""

REQUESTS = """\
Many requests, to a plan of 1,000 nodes in 247 subgraphs (`simulate`) and to a deployment of
SqueezeNet (*under load*), seconds:
"""

BOUNDS = """\
## The bound

`lower_bound` of random graphs on three devices, without what loading machine code takes.
"""

LOADING = """\
## Loading

`load_model` of a file, by a process of its own, beside a session of ONNX Runtime of the same level.
*chain* has two small weights to three nodes, *llm* a constant to most of its nodes. By default
ONNX Runtime rewrites the graph (`basic`) of up to 30,000 nodes, and of tree ensembles of less than
262,144.
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

    parts = [
        HEAD,
        *_verbs(of("growth")),
        *(_partitions(told) if (told := of("partition")) else ()),
        *_sizes(BOUNDS, of("bounds"), lambda one: (one["graph"].replace("_", " "),), ("graph",)),
        *_sizes(LOADING, of("loading"), lambda one: (one["graph"], one["way"]), ("file", "by")),
        *_traces(of("traces")),
    ]
    return "\n".join(parts)


def _verbs(lines: Sequence[dict[str, Any]]) -> list[str]:
    asked = [one for one in lines if "nodes" in one]
    many = [one for one in lines if "requests" in one]
    refused = {one["verb"]: one["refused"] for one in asked if "refused" in one}
    parts = _sizes(VERBS, asked, lambda one: (f"`{one['verb']}`",), ("verb",))
    parts += [f"`{verb}` says: {why}.\n" for verb, why in refused.items()]
    if many:
        parts += _sizes(REQUESTS, many, lambda one: (one["verb"],), ("",), by="requests")
    return parts


def _sizes(
    text: str,
    lines: Sequence[dict[str, Any]],
    named: Callable[[dict[str, Any]], tuple[str, ...]],
    head: tuple[str, ...],
    by: str = "nodes",
) -> list[str]:
    """A table with a row for each name and a column for each size, of seconds; the growth."""
    if not lines:
        return []
    sizes = sorted({one[by] for one in lines})
    found: dict[tuple[str, ...], dict[int, dict[str, Any]]] = {}
    for one in lines:
        found.setdefault(named(one), {})[one[by]] = one
    rows = []
    for name, at in found.items():
        known = {n: one["cpu_s"] for n, one in at.items() if one.get("cpu_s")}
        least, most = (min(known), max(known)) if known else (0, 0)
        grown = ""
        if most > least:
            grown = f"{math.log(known[most] / known[least]) / math.log(most / least):.2f}"
        memory = at.get(most, {})
        mib = memory.get("grew_mib", memory.get("memory_mib", memory.get("most_mib")))
        seconds = [_seconds(at.get(n, {})) for n in sizes]
        rows.append((*name, *seconds, grown, "" if mib is None else f"{mib:,.0f}"))
    columns = (*head, *(f"{n:,}" for n in sizes), "exponent", "memory, MiB")
    return [text, _table(columns, rows)]


def _seconds(one: dict[str, Any]) -> str:
    if "cpu_s" in one:
        return f"{one['cpu_s']:.3g}" if one["cpu_s"] < 100 else f"{one['cpu_s']:,.0f}"
    if "cpu_s_above" in one:
        return f"> {one['cpu_s_above']:g}"
    if "above_gib" in one:
        return f"> {one['above_gib']} GiB"
    return "refuses" if "refused" in one else ""


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
