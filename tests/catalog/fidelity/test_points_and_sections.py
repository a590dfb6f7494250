"""Points of fidelity: file, guard, right orders, sections of the document."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catalog.fidelity.judged import read_tables, tables_bytes
from catalog.fidelity.points import FidelityPoint, Predicted, losses, points_text, read_points
from catalog.fidelity.sections import chip_of, errors_sections, runs_of
from catalog.judging import Best, Pairs, best, pairs
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


def test_points_that_are_no_longer_predicted_are_named():
    old = [point("a", 10, 11), point("b", 20, 19, network="other"), point("c", 1, None)]
    lost = losses(old, [point("a", 10, None)])
    assert lost.gone == ("net on a in int8", "other on b in int8")
    assert "2 points are no longer predicted" in lost.text()


def test_an_interval_that_no_longer_covers_is_told_with_both_predictions():
    lost = losses([point("a", 10, 11)], [point("a", 10, 16)])
    assert lost.uncovered == (
        "net on a in int8: measured 10 ms, predicted 16 ms within 1.5x (was 11 ms within 1.5x)",
    )
    # The same prediction, but surer of itself.
    assert losses([point("a", 10, 11)], [point("a", 10, 11, within=1.05)]).uncovered
    # What was not covered before is not lost, nor what is covered still.
    assert not losses([point("a", 10, 16)], [point("a", 10, 20)])
    assert not losses([point("a", 10, 11)], [point("a", 10, 14.9)])
    assert losses([point("a", 10, 11)], [point("a", 10, 14.9)]).text() == ""


def test_a_pair_in_the_wrong_order_is_named():
    old = [point("a", 10, 11), point("b", 12, 12)]
    lost = losses(old, [point("a", 10, 12.1), point("b", 12, 12)])
    assert lost.flipped == (
        "net on b in int8 against a in int8: measured 12 ms and 10 ms, predicted 12 ms and "
        "12.1 ms (was 12 ms and 11 ms)",
    )


def seconds(one: FidelityPoint) -> float | None:
    return None if one.unseen is None else one.unseen.seconds


def in_order(points: list[FidelityPoint], of_a_chip: bool = False) -> Pairs:
    return pairs(runs_of(points, seconds, of_a_chip))


def taken(points: list[FidelityPoint], of_a_chip: bool) -> Best:
    return best(runs_of(points, seconds, of_a_chip))


CASE = [
    point("chip-cpu", 40, 30),
    point("chip-gpu", 20, 35),
    point("chip-npu", 10, 9),
    point("other-cpu", 22, 21),
    point("late", 5, None),
]


def test_pairs_apart_are_counted_and_those_in_order():
    # gpu and other-cpu are 1.1 times apart, which has no order; cpu and gpu are the wrong way.
    assert in_order(CASE) == Pairs(count=5, right=4)
    assert in_order(CASE, of_a_chip=True) == Pairs(count=3, right=2)


def test_other_networks_and_batches_are_other_cases():
    found = [point("a", 10, 30), point("b", 20, 20, batch=8), point("c", 20, 20, network="x")]
    assert in_order(found) == Pairs(0, 0)
    assert taken(found, of_a_chip=False).count == 0


def test_the_best_unit_may_be_taken_in_a_slower_precision():
    units = [
        point("chip-cpu", 12, 12),
        point("chip-npu", 10, 9, precision="int8"),
        point("chip-npu", 15, 8, precision="float16"),
    ]
    found = taken(units, of_a_chip=True)
    assert (found.count, found.right) == (1, 1)
    assert found.regrets == pytest.approx((0.5,))


def test_regret_is_what_the_choice_costs_beyond_the_best():
    found = taken([point("a", 10, 12), point("b", 13, 11)], of_a_chip=False)
    assert (found.count, found.right, found.regrets) == (1, 0, pytest.approx((0.3,)))
    assert taken([point("a", 10, 12)], of_a_chip=False).count == 0


def test_chips_by_the_names_of_their_units():
    assert chip_of("intel-core-ultra-155h-igpu") == chip_of("intel-core-ultra-155h-npu")
    assert chip_of("google-edge-tpu") == "google-edge-tpu"


def cells(text: str, start: str) -> list[list[str]]:
    """The cells of the lines of tables that begin so."""
    lines = [line for line in text.splitlines() if line.startswith(f"| {start}")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_both_ways_of_leaving_out_are_told_apart() -> None:
    known = [
        replace(point("a", 10, 11, network=f"net{at}"), unseen=Predicted(0.03, 1.5))
        for at in range(5)
    ]
    few = replace(point("b", 10, 30), unseen=None)
    text = errors_sections([*known, few])[0]
    of_device, _ = cells(text, "fitted, the network left out of the device")
    assert of_device[1:] == ["1", "6", "10 %", "105 %", "83 %", "83 %", "10 % / 10 %"]
    of_kin, _ = cells(text, "fitted, the network left out of its kin")
    assert of_kin[1:] == ["1", "5", "200 %", "200 %", "0 %", "0 %", "200 % / 200 %"]


def test_rates_of_a_pipeline_are_told_with_latencies_and_apart() -> None:
    latency = point("a", 10, 11, batch=8)
    rate = replace(point("b", 10, 20, batch=8), kin="hailort-int8")
    text = errors_sections([latency, rate])[0]
    told = {row[1]: row[2:4] for row in cells(text, "fitted, the network left out of the device")}
    assert told == {
        "2-16": ["2", "55 %"],
        "2-16, latencies": ["1", "10 %"],
        "2-16, rates of a pipeline": ["1", "100 %"],
        "all": ["2", "55 %"],
    }


def test_where_the_donor_is_better_it_is_said() -> None:
    points = [
        replace(point("a", 10, 11), kin="one-int8", donor_s=0.012),
        replace(point("b", 10, 13), kin="two-int8", donor_s=0.012),
        replace(point("c", 10, 13), kin="three-int8"),
    ]
    text = "\n".join(errors_sections(points))
    assert cells(text, "one-int8") == [["one-int8", "1", "10 % / 10 %", "20 % / 20 %", "in both"]]
    assert cells(text, "two-int8")[0][-1] == "**no**"
    assert cells(text, "three-int8") == []
    assert "donor" not in "\n".join(errors_sections(points[2:]))
