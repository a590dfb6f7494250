"""Kernel tables of the measured networks, kept in a file: graphs take a minute to load."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from hetsim.cost.kernels.table import KernelTable


def tables_bytes(tables: Mapping[str, KernelTable]) -> bytes:
    """Return the file of tables: the same bytes for the same tables."""
    names = sorted(tables)
    found = [tables[name] for name in names]
    out = io.BytesIO()
    np.savez_compressed(
        out,
        names=np.array(names),
        elements=np.concatenate([one.elements for one in found]),
        stored=np.concatenate([one.stored for one in found]),
        counts=np.concatenate([one.counts for one in found]),
        first=np.cumsum([0, *(len(one.counts) for one in found)]),
        io_elements=np.array([one.io_elements for one in found]),
        io_stored=np.array([one.io_stored for one in found]),
    )
    return out.getvalue()


def read_tables(path: Path) -> dict[str, KernelTable]:
    """Read a file of tables: by the name of the network, as points have it."""
    with np.load(path, allow_pickle=False) as held:
        kept = dict(held)
    parts = [slice(a, b) for a, b in zip(kept["first"][:-1], kept["first"][1:], strict=True)]
    return {
        str(name): KernelTable(
            elements=kept["elements"][part],
            stored=kept["stored"][part],
            counts=kept["counts"][part],
            io_elements=int(kept["io_elements"][index]),
            io_stored=int(kept["io_stored"][index]),
        )
        for index, (name, part) in enumerate(zip(kept["names"], parts, strict=True))
    }
