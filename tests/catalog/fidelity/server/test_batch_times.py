"""Times of batches go through what was measured, and are bulk's beyond bulk."""

from __future__ import annotations

import numpy as np
import pytest

from catalog.fidelity.server.batches import GRID, MOST, OF_CHIPS, batch_times
from catalog.measured import BULK_BATCH
from catalog.points import Chips
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.files.device_schema import DeviceModel
from hetsim.hardware.files.schema import read_file

SHAPE = 0.5 + 0.25 * np.array(GRID, dtype=float)


@pytest.mark.parametrize(("bulk_s", "alone_s"), [(20.0, 0.6), (33.0, 2.0), (8.0, 1.5)])
def test_both_anchors_are_met(bulk_s: float, alone_s: float) -> None:
    seconds = batch_times(SHAPE, bulk_s, alone_s)
    assert seconds[0] == 0.0
    assert seconds[1] == pytest.approx(alone_s)
    assert seconds[BULK_BATCH] == pytest.approx(bulk_s)
    assert (np.diff(seconds) >= 0).all()
    assert len(seconds) == MOST + 1
    assert seconds[4 * BULK_BATCH] == pytest.approx(4 * bulk_s)


def test_one_anchor_moves_all_alike_and_none_leaves_the_shape() -> None:
    grid = np.array(GRID)
    for given, factor in (((None, None), 1.0), ((2 * SHAPE[-1], None), 2.0), ((None, 1.5), 2.0)):
        np.testing.assert_allclose(batch_times(SHAPE, *given)[grid], factor * SHAPE)


def test_without_a_shape_there_is_a_line() -> None:
    np.testing.assert_allclose(batch_times(None, 64.0, 10.0)[[1, 64, 128]], [10.0, 64.0, 128.0])
    np.testing.assert_allclose(np.diff(batch_times(None, 64.0, None)), 1.0)
    # One alone cannot take longer than bulk, which it may be filled up to.
    assert batch_times(None, 64.0, 100.0)[1] == pytest.approx(64.0)


def test_a_larger_batch_takes_no_less_than_a_smaller_one() -> None:
    shape = SHAPE.copy()
    shape[3] = 1.5 * shape[4]
    shape[6] = 3 * shape[-1]
    seconds = batch_times(shape, None, None)
    assert seconds[GRID[4]] == pytest.approx(shape[3])
    assert seconds[GRID[6]] == pytest.approx(shape[-1])
    assert (np.diff(seconds) >= 0).all()


def test_devices_stand_for_the_chips_that_their_files_name(chips: Chips) -> None:
    for chip, device in OF_CHIPS.items():
        model, _ = read_file(
            DeviceModel, catalog_folder() / f"{device}.yaml", f"{device}.yaml", catalog=True
        )
        assert model is not None
        every = (model.measured, *(one.measured for one in model.runtimes.values()))
        named = {chips.name(t.chip) for told in every for t in told.values() if t.chip}
        assert chip in named
