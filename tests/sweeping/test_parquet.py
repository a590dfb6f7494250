"""Rows as Parquet are the rows, in columns of the same kinds whatever they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hetsim
from hetsim.sweeping.rows import COLUMNS

parquet = pytest.importorskip("pyarrow.parquet", reason="the extra 'parquet' is not installed")


def test_parquet_has_the_rows(grid: Path, tmp_path: Path) -> None:
    found = hetsim.sweep(hetsim.load_grid(grid), tmp_path / "out", executor="threads")
    assert found.parquet == tmp_path / "out" / "rows.parquet"
    table = parquet.read_table(found.parquet)
    lines = (tmp_path / "out" / "rows.jsonl").read_text().splitlines()
    assert table.to_pylist() == [json.loads(line) for line in lines]
    assert tuple(table.column_names) == COLUMNS
    # Nothing of it has a plan: no row has a latency, and the columns are of the same kinds.
    text = grid.read_text().replace("[heft, single:npu]", "[single:npu]")
    grid.write_text(text.replace("[laptop, rock-5b]", "[laptop]").replace("npu.speed x2", "{}"))
    few = hetsim.sweep(hetsim.load_grid(grid), tmp_path / "few", executor="threads")
    assert all(row["error"] for row in few.rows)
    other = parquet.read_table(few.parquet)
    assert other.schema == table.schema
    again = hetsim.sweep(hetsim.load_grid(grid), tmp_path / "few", executor="threads")
    assert again.parquet is not None
    assert parquet.read_table(again.parquet) == other
