"""Points as a file: what is written is read, in one order, to five digits."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catalog.fidelity.judged import read_tables, tables_bytes
from catalog.fidelity.points import Predicted, points_text, read_points
from catalog.fidelity.sections import Summary, spread
from fidelity_builders import point
from hetsim.cost.kernels.networks import network_table
from hetsim.errors import UsageError
from kernel_graphs import chain


def test_what_is_written_is_read(tmp_path: Path) -> None:
    points = [
        point("b", 10, 11),
        replace(point("a", 0.5, None), donor_s=3e-3, priced_s=1e-3, roofline_s=2e-3),
        replace(point("a", 7, 6, batch=8), datasheet=Predicted(0.25, 2.5)),
    ]
    path = tmp_path / "points.csv"
    path.write_text(points_text(points))
    assert read_points(path) == sorted(points, key=lambda one: one.key)
    random.Random(0).shuffle(points)
    assert points_text(points) == path.read_text()


def test_a_file_that_is_not_there_or_of_other_columns_says_what_writes_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="make fit"):
        read_points(tmp_path / "none.csv")
    (tmp_path / "old.csv").write_text("device,network\na,b\n")
    with pytest.raises(UsageError, match="other columns"):
        read_points(tmp_path / "old.csv")


def test_kernel_tables_come_back_as_they_were(tmp_path: Path) -> None:
    tables = {
        "relu": network_table(chain("Relu", "Softmax")),
        "add": network_table(chain("Sigmoid", shape=(1, 8, 5, 5))),
    }
    path = tmp_path / "tables.npz"
    path.write_bytes(tables_bytes(tables))
    assert tables_bytes(dict(reversed(tables.items()))) == path.read_bytes()
    found = read_tables(path)
    assert list(found) == ["add", "relu"]
    for name, table in tables.items():
        for field in ("elements", "stored", "counts"):
            np.testing.assert_array_equal(getattr(found[name], field), getattr(table, field))
        assert (found[name].io_elements, found[name].io_stored) == (table.io_elements, 0)


def test_coverage_is_by_factors_to_either_side() -> None:
    predicted = Predicted(1.0, 2.0)
    assert [predicted.covers(s) for s in (0.49, 0.51, 1.99, 2.01)] == [False, True, True, False]
    assert predicted.error(2.0) == 0.5


def test_a_summary_by_hand() -> None:
    points = [point("a", 10, predicted) for predicted in (10, 11, 12, 13, 30)]
    found = Summary.of([*points, point("b", 1, None)], lambda one: one.shipped)
    assert found is not None
    assert (found.count, found.within_twice, found.covered) == (5, 0.8, 0.8)
    assert found.median == pytest.approx(0.2)
    # The 90th percentile of 0, 0.1, 0.2, 0.3, 2 is six tenths of the way from the fourth.
    assert found.p90 == pytest.approx(0.3 + 0.6 * 1.7)
    assert Summary.of(points, lambda one: None) is None
    assert spread(points) == pytest.approx(0.25)
    assert spread([replace(points[0], rows=1)]) is None
