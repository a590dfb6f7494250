"""Verb ``sweep``: every point of a grid evaluated once, on all cores or a cluster."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from hetsim.core import checks
from hetsim.core.result import Result
from hetsim.errors import UsageError, nearest
from hetsim.execution.ray_tasks import spread, spread_here
from hetsim.hardware.catalog import load_platform
from hetsim.sweeping.evaluation import RemainingPoints, SharedSettings, SweepProgress, answer
from hetsim.sweeping.grid import Grid
from hetsim.sweeping.rows import Preference, Row, front_of, line, read_front
from hetsim.sweeping.store import Store, keys_of, leftovers_removed, note_ray_files, write_parquet

Spreading = Literal["ray", "threads"]
EXECUTORS = get_args(Spreading)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Swept(Result):
    """Result of a sweep.

    Attributes
    ----------
    rows : tuple of mapping
        One per point, in the order of the grid; see ``hetsim.sweeping.rows.COLUMNS``.
    file : Path
        File with one line per row.
    parquet : Path or None
        The same as Parquet, if pyarrow is installed.
    answered, known : int
        Numbers of points that this call answered, and that were answered before.
    failed : int
        Number of rows with an error.
    wishes : tuple of Preference
        Columns of the front.
    front : tuple of mapping
        Rows that no other dominates, in the order of the grid.
    """

    rows: tuple[Row, ...]
    file: Path
    parquet: Path | None
    answered: int
    known: int
    failed: int
    wishes: tuple[Preference, ...] = ()
    front: tuple[Row, ...] = ()


@checks.takes(
    grid=checks.instance("hetsim.sweeping.grid:Grid"),
    out=checks.path,
    executor=checks.text,
    address=checks.text,
    front=checks.sequence(checks.text),
    tell=checks.function,
)
def sweep(
    grid: Grid,
    out: str | os.PathLike[str],
    *,
    executor: Spreading = "ray",
    address: str | None = None,
    front: Sequence[str] = (),
    tell: Callable[[SweepProgress], None] | None = None,
) -> Swept:
    """Evaluate every point of `grid` to a row each, and keep the rows in the folder `out`.

    Points are Ray tasks, in chunks of a few tenths of a second. Rows are on disk as they come: a
    killed sweep continues, a finished one is not run again, and a larger grid evaluates only its
    new points. The bytes of `rows.jsonl` do not depend on the order of completion.

    Parameters
    ----------
    grid : Grid
        From ``load_grid``.
    out : path
    executor : "ray" or "threads"
        Whether points are answered on all cores, or one after another in this process.
    address : str, optional
        Ray cluster to join. Its nodes read models, except platforms' files, at the same paths as
        this one.
    front : sequence of str
        Columns of the Pareto front: ``latency_s`` or ``throughput_per_s:max``.
    tell : callable, optional
        Called with the progress.

    Raises
    ------
    UsageError
        For an unknown executor, an address without Ray, or an unknown column.
    PlatformError
        If a platform can no longer be read.
    SweepError
        If `out` cannot be written, or another sweep writes it.
    ClusterError
        As in ``hetsim.run``.

    Complexity: that of the points, over the cores.
    """
    if executor not in EXECUTORS:
        raise UsageError(
            f"unknown executor '{executor}' for sweeps", hint=nearest(str(executor), EXECUTORS)
        )
    if address is not None and executor != "ray":
        raise UsageError(
            ("an address needs the executor 'ray'"), hint="omit it, or use the executor 'ray'"
        )
    wishes = read_front(front)
    folder = Path(out)
    platforms = tuple(load_platform(axis.source) for axis in grid.platforms)
    keys = keys_of(grid, platforms)
    with Store(folder) as store, leftovers_removed(folder):
        asked: dict[str, int] = {}
        for index, key in enumerate(keys):
            # Points may ask the same question: a change may leave the platform's text as it is.
            if key not in store.known:
                asked.setdefault(key, index)
        shared = SharedSettings(grid, platforms, f"{os.getpid()}-{hash(keys)}")
        told: dict[str, Row] = {}

        def keep(rows: Sequence[Row]) -> None:
            told.update((row["key"], row) for row in rows)
            store.add(rows)

        known = len(keys) - len(asked)
        places = deque(asked.values())
        work = RemainingPoints(shared, keys, places, keep, tell or (lambda so_far: None), known)
        if asked and executor == "ray":
            spread(answer, shared, work, address=address,
                   started=lambda files: note_ray_files(folder, files))  # fmt: skip
        elif asked:
            spread_here(answer, shared, work)
        lines = [store.known.get(key) or line(told[key]) for key in keys]
        file = store.finish(lines)
    rows: tuple[dict[str, Any], ...] = tuple(json.loads(text) for text in lines)
    return Swept(
        rows,
        file,
        write_parquet(folder, rows),
        len(asked),
        known,
        sum(row["error"] is not None for row in rows),
        wishes,
        front_of(rows, wishes),
    )
