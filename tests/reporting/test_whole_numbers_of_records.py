"""Whole numbers of a record that no figure is as large as."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from answers_on_disk import left_by_verbs
from cli_calls import call


@pytest.mark.parametrize("digits", ["1" + "0" * 301, "-1" + "0" * 400, "1" * 5000])
def test_a_record_with_one_is_refused_by_name(tmp_path: Path, digits: str) -> None:
    left = left_by_verbs(tmp_path)
    text = left.record.read_text()
    figure = next(found[1] for found in re.finditer(r"latency_s.: ([0-9.e-]+)", text))
    other = tmp_path / "other.json"
    other.write_text(text.replace(figure, digits, 1))
    told = call("report", left.record, other, "--out", tmp_path / "moved.html")
    assert told.exit_code == 3
    assert "other.json" in told.stderr
