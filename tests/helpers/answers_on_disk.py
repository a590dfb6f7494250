"""Answers as verbs leave them on disk: a page, its record, a folder of ``--out``, a sweep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hetsim.analysis.comparison import compare
from hetsim.core.text import to_compact_json, to_json
from hetsim.placement.planning import plan
from hetsim.problem.problem import Problem
from hetsim.reporting.output import manifest_json
from hetsim.reporting.pages.answers import answer_island
from hetsim.reporting.pages.page import write_page
from hetsim.reporting.pages.saved import SavedAnswer, read_all
from hetsim.reporting.pages.subgraphs import plans_picture
from hetsim.reporting.pages.timeline import pictures_of, played_of
from hetsim.reporting.tables.comparison import comparison_record
from hetsim.reporting.tables.plan import simulation_record
from hetsim.simulation.simulate import simulate
from hetsim.sweeping.rows import COLUMNS


def read_left(path: Path) -> SavedAnswer:
    """The one answer that a path holds."""
    [found] = read_all(path)
    return found


@dataclass(frozen=True)
class AnswersOnDisk:
    """Where they are; all are in the folder `root`."""

    root: Path
    page: Path
    record: Path
    folder: Path
    sweep: Path


def small_problem(slower: float = 1.0, seed: int = 0) -> Problem:
    """Ten nodes in a chain with skips on two devices, the second `slower` than it is."""
    rng = np.random.default_rng(seed)
    seconds = rng.uniform(1e-4, 3e-3, (10, 2))
    seconds[4, 1] = np.inf
    seconds[:, 1] *= slower
    edges = [(v, w, 10**5) for v in range(10) for w in (v + 1, v + 3) if w < 10]
    return Problem.from_arrays(seconds, edges=edges, bytes_per_s=1e9, host=0)


def write_comparison(path: Path, problem: Problem, command: Sequence[str]) -> None:
    """Leave the page of a comparison, and its record beside it."""
    found = compare(problem, ["single", "heft"])
    record = json.loads(to_compact_json(comparison_record(found)))
    played = played_of(found)
    pictures = {**pictures_of(played), **plans_picture([plan for _, plan, _ in played])}
    write_page(answer_island(record, command, pictures), path)
    path.with_suffix(".json").write_text(to_json(record))


def write_out(folder: Path, problem: Problem, strategy: str) -> None:
    """Leave what ``simulate --out`` leaves."""
    folder.mkdir()
    made = plan(problem, strategy)
    command = ("hetsim", "simulate", "a.onnx", "--strategy", strategy, "--out", str(folder))
    (folder / "plan.json").write_text(made.to_json())
    (folder / "result.json").write_text(to_json(simulation_record(made, simulate(made))))
    (folder / "manifest.json").write_text(manifest_json(problem, command, 0))


def write_rows(folder: Path, latencies_s: Sequence[float]) -> None:
    """Leave the rows of a sweep over strategies."""
    folder.mkdir()
    rows = []
    for number, seconds in enumerate(latencies_s):
        row = dict.fromkeys(COLUMNS)
        row |= {"key": f"k{number}", "model": "a.onnx", "platform": "p", "strategy": f"s{number}",
                "objective": "latency", "latency_s": seconds}  # fmt: skip
        rows.append(json.dumps(row))
    (folder / "rows.jsonl").write_text("".join(f"{row}\n" for row in rows))


def left_by_verbs(root: Path) -> AnswersOnDisk:
    """Leave one of each in `root`."""
    problem = small_problem()
    page = root / "compared.html"
    write_comparison(page, problem, ("hetsim", "compare", "a.onnx", "--platform", "p"))
    write_out(root / "out", problem, "heft")
    write_rows(root / "swept", [0.5, 0.25])
    return AnswersOnDisk(root, page, page.with_suffix(".json"), root / "out", root / "swept")
