"""The tables of errors, of points made by hand."""

from __future__ import annotations

from dataclasses import replace

from catalog.fidelity.points import Predicted
from catalog.fidelity.sections import errors_sections
from fidelity_builders import point


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
