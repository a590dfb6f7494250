"""Weights sent to a node: once, wherever they are needed there, and gone afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray

from hetsim.errors import ExecutionError
from hetsim.execution import weights as node_weights
from hetsim.execution.transports.ray_connection import RayConnection
from hetsim.execution.weights import Extent, Shipments

FIRST = (Extent("a/w.bin", 0, 1000), Extent("a/w.bin", 5000, 3000))
SECOND = (Extent("a/w.bin", 5000, 3000), Extent("v.bin", 64, 200))


class Waiting:
    """Waits for every reference, and counts the pieces."""

    def __init__(self) -> None:
        self.pieces = 0

    def __call__(self, reference: Any, doing: str) -> Any:
        self.pieces += doing == "receiving weights"
        try:
            return ray.get(reference)
        except ray.exceptions.RayError as error:
            raise ExecutionError(str(error)) from error


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two files of random bytes."""
    rng = np.random.default_rng(3)
    (tmp_path / "a").mkdir()
    for name in ("a/w.bin", "v.bin"):
        (tmp_path / name).write_bytes(rng.bytes(8192))
    return tmp_path


@pytest.fixture
def shipments(ray_connection: RayConnection) -> Iterator[Shipments]:
    made = Shipments()
    yield made
    made.close()


def here() -> str:
    return str(ray.get_runtime_context().get_node_id())


def same(folder: str, source: Path, extent: Extent) -> bool:
    end = extent.offset + extent.nbytes
    sent = (Path(folder) / extent.location).read_bytes()[extent.offset : end]
    return sent == (source / extent.location).read_bytes()[extent.offset : end]


def test_a_piece_is_sent_once_a_node(shipments: Shipments, source: Path) -> None:
    waiting = Waiting()
    folder = shipments.place(here(), str(source), FIRST, waiting)
    assert waiting.pieces == 2
    assert shipments.place(here(), str(source), SECOND, waiting) == folder
    assert waiting.pieces == 3
    assert all(same(folder, source, extent) for extent in (*FIRST, *SECOND))
    shipments.close()
    assert not Path(folder).exists()


def test_a_store_that_died_is_made_anew(shipments: Shipments, source: Path) -> None:
    waiting = Waiting()
    shipments.place(here(), str(source), FIRST, waiting)
    (held,) = shipments._held.values()
    ray.kill(held.store)
    # Calls that are on their way may still be answered.
    while node_weights._lives(held.store):
        pass
    folder = shipments.place(here(), str(source), FIRST, waiting)
    assert waiting.pieces == 4
    assert all(same(folder, source, extent) for extent in FIRST)


def test_a_node_that_cannot_write_is_an_error(shipments: Shipments, source: Path) -> None:
    waiting = Waiting()
    shipments.place(here(), str(source), SECOND, waiting)
    # There a file is in the way of the folder that this one has.
    (source / "v.bin").rename(source / "v")
    (source / "v.bin").mkdir()
    (source / "v").rename(source / "v.bin" / "x")
    beyond = (Extent("v.bin/x", 0, 10),)
    with pytest.raises(ExecutionError, match="cannot write the weights"):
        shipments.place(here(), str(source), beyond, waiting)
    folder = shipments.place(here(), str(source), beyond, waiting)
    assert same(folder, source, beyond[0])
