"""The digest of all that the answer to a point depends on: what is asked, and by which code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache

from hetsim.core.files import sha256_of
from hetsim.errors import HetsimError
from hetsim.graph.loading import read_source
from hetsim.hardware.spec import Platform
from hetsim.sweeping.grid import Grid, LoadAxis, ModelAxis
from hetsim.version import package_folder
from hetsim.workload.arrivals import Replay

SCHEMA = "hetsim-sweep/1"


def keys_of(grid: Grid, platforms: Sequence[Platform]) -> tuple[str, ...]:
    """Return the key of every point of a grid, SHA-256 in hex.

    The models' files, the platforms with all that their files name, the traces that are replayed,
    and hetsim's own code are in it, so that a row is never taken for the answer to another
    question. O(bytes of the files + points).
    """
    parts: tuple[Sequence[object], ...] = (
        [_of_model(axis) for axis in grid.models],
        [
            [axis.shown, platform.sha256]
            for axis, platform in zip(grid.platforms, platforms, strict=True)
        ],
        [[list(axis.changes), list(axis.without)] for axis in grid.what_ifs],
        [dict(sorted(execute.items())) for execute in grid.precisions],
        grid.strategies,
        [None if axis is None else asdict(axis) for axis in grid.batchings],
        [_of_load(axis) for axis in grid.loads],
    )
    told = [[json.dumps(part, sort_keys=True) for part in axis] for axis in parts]
    common = json.dumps([SCHEMA, code_digest(), grid.objective, grid.bound])
    found = []
    for point in grid.points():
        places = (point.model, point.platform, point.what_if, point.precision, point.strategy,
                  point.batching, point.load)  # fmt: skip
        digest = hashlib.sha256(common.encode())
        for axis, place in zip(told, places, strict=True):
            digest.update(b"\0" + axis[place].encode())
        found.append(digest.hexdigest())
    return tuple(found)


@cache
def code_digest() -> str:
    """SHA-256, in hex, of this hetsim's code and data: another one may answer otherwise."""
    digest = hashlib.sha256()
    folder = package_folder()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _of_model(axis: ModelAxis) -> Mapping[str, object]:
    sha256 = "of the code"
    if not axis.source.startswith("zoo:"):
        try:
            sha256 = read_source(axis.source)[1].sha256
        except HetsimError as error:
            # The row will say so; once it can be read, that is another question.
            sha256 = str(error)
    return {"shown": axis.shown, "sha256": sha256, "dims": dict(sorted(axis.dims.items()))}


def _of_load(axis: LoadAxis | None) -> object:
    if axis is None:
        return None
    workload = axis.workload
    (stream,) = workload.streams
    assert stream.arrivals is not None
    trace = None
    if isinstance(stream.arrivals, Replay):
        trace = sha256_of(stream.arrivals.path)
        arrivals = {**asdict(stream.arrivals), "path": None}
    else:
        arrivals = {"kind": type(stream.arrivals).__name__, **asdict(stream.arrivals)}
    return {
        "shown": axis.shown,
        "arrivals": arrivals,
        "trace": trace,
        "slos": [asdict(slo) for slo in stream.slos],
        "duration_s": workload.duration_s,
        "requests": workload.requests,
        "warm_up_s": workload.warm_up_s,
        "seed": workload.seed,
    }
