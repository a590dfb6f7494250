"""Like devices and links as one: what is folded, and what must not be."""

from __future__ import annotations

import pytest

from hetsim import load_platform
from hetsim.reporting.formatting import fold_links, fold_rows, folded


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([], []),
        (["cpu", "gpu.0", "gpu.1", "npu"], ["cpu", "gpu.0-1", "npu"]),
        (["gpu.0", "gpu.2", "gpu.3"], ["gpu.0", "gpu.2-3"]),
        (["gpu.1", "gpu.0"], ["gpu.1", "gpu.0"]),
        (["cpu.0", "gpu.1"], ["cpu.0", "gpu.1"]),
        (["gpu.9", "gpu.10"], ["gpu.9-10"]),
        (["v1.5", "v1.6.x"], ["v1.5", "v1.6.x"]),
        (["", ""], ["", ""]),
    ],
)
def test_runs_of_siblings_are_ranges(names: list[str], shown: list[str]) -> None:
    assert folded(names) == shown


def test_rows_are_one_only_where_they_look_alike() -> None:
    rows = [("gpu.0", 1), ("gpu.1", 1), ("gpu.2", 2), ("gpu.3", 1)]
    found = fold_rows(rows, lambda row: row[0], lambda row: row[1])
    assert [(name, row[1]) for name, row in found] == [("gpu.0-1", 1), ("gpu.2", 2), ("gpu.3", 1)]


def test_links_between_all_pairs_and_from_one_to_all() -> None:
    links = load_platform("gpu-server-8").links
    assert [ends for ends, _ in fold_links(links)] == ["cpu - gpu.0-7", "gpu.0-7, each to each"]


def test_a_missing_pair_is_not_hidden() -> None:
    links = load_platform("gpu-server-8").links
    without = [link for link in links if {link.a, link.b} != {"gpu.2", "gpu.5"}]
    shown = [ends for ends, _ in fold_links(without)]
    assert "gpu.0-7, each to each" not in shown
    assert "gpu.2 - gpu.5" not in shown
    assert len(shown) == 1 + 27


def test_unlike_links_stay_apart() -> None:
    shown = [ends for ends, _ in fold_links(load_platform("two-hosts").links)]
    assert len(shown) == len(load_platform("two-hosts").links)
