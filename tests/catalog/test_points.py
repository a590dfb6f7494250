"""Points: medians of comparable rows, each row counted once."""

from __future__ import annotations

import pytest

from catalog.measured import measured_folder, read_rows
from catalog.points import Series, points_of


def bert(ms: float, chip: str = "NVIDIA L4", network: str = "bert.onnx") -> dict[str, object]:
    return {
        "kind": "trt-bert",
        "chip": chip,
        "device": chip,
        "unit": "gpu",
        "precision": "int8",
        "batch": 8,
        "graphs": [{"file": network}],
        "latency_ms": ms,
    }


def test_a_point_is_the_median_with_its_spread():
    points = points_of([bert(1.0), bert(2.0), bert(4.0), bert(3.0, network="a.onnx")])
    ((series, found),) = points.series.items()
    assert series == Series("tensorrt-int8", "NVIDIA L4", "gpu", "int8")
    single, several = found
    assert (single.network, single.rows, single.spread) == ("a.onnx", 1, None)
    assert (several.seconds, several.rows) == (0.002, 3)
    assert (several.lowest, several.highest) == (0.001, 0.004)
    assert several.spread == pytest.approx(1.0)  # the median of 0, 1 and 1 octaves


def test_chips_of_several_names_are_one():
    points = points_of([bert(1.0), bert(3.0, "L4 PCIe")], {"L4 PCIe": "NVIDIA L4"})
    ((_, (found,)),) = points.series.items()
    assert (found.rows, found.seconds) == (2, 0.002)


def test_every_row_is_in_one_point_or_left_out_for_one_reason():
    rows = read_rows(measured_folder())
    points = points_of(rows)
    used = sum(point.rows for found in points.series.values() for point in found)
    assert used + sum(points.left_out.values()) == len(rows)
    assert points.left_out["no graph stands for the network"] == 3201
    assert points.left_out["several units at once"] == 96
    assert points.left_out["a virtual machine's view of its host"] == 165
    assert points.left_out["a GPU without a name"] == 35
    assert len(points.kin("tensorrt-int8")) == 20
    for series, found in points.series.items():
        keys = [(point.network, point.batch) for point in found]
        assert keys == sorted(set(keys))
        assert all(p.lowest <= p.seconds <= p.highest for p in found), series
