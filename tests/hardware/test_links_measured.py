"""Links of the catalog held against what was measured of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hetsim.core.units import GIGA
from hetsim.hardware.catalog import link_names, load_link

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data/measured/links.jsonl").read_text().splitlines()
]
NOT_THE_LINK = ("other socket", "both directions", "while device to host runs")
"""Rows of another way, or of two transfers at once: not the rate of one transfer."""


def rates(link: str) -> list[float]:
    return [
        row["gbytes_s"]
        for row in ROWS
        if row["link"] == link
        and "gbytes_s" in row
        and not any(words in row["what"] for words in NOT_THE_LINK)
    ]


def reached(link: str) -> float:
    """GB/s of a large transfer."""
    found = load_link(link)
    return found.bandwidth_gbytes_s.value * found.efficiency.value


@pytest.mark.parametrize("link", sorted({row["link"] for row in ROWS} & {*link_names()}))
def test_a_link_reaches_what_was_measured(link: str) -> None:
    measured = rates(link)
    assert measured
    assert min(measured) * 0.97 <= reached(link) <= max(measured) * 1.03
    statuses = {load_link(link).efficiency.status}
    assert statuses <= {"measured", "derived"}


def test_a_copy_takes_a_latency_and_its_bytes_over_the_rate() -> None:
    curve = {row["bytes"]: row["us"] for row in ROWS if "bytes" in row}
    # Those of one card: what the call costs is the card's driver, what a byte costs the link's.
    call_us = curve[min(curve)]
    for nbytes, took_us in curve.items():
        # 5 %: at 13.1 to 13.9 GB/s by size, against one rate for all.
        predicted_us = call_us + nbytes / (reached("pcie3-x16") * GIGA) * 1e6
        assert predicted_us == pytest.approx(took_us, rel=0.05)
    assert load_link("pcie3-x16").latency_us.value <= call_us
