"""Sizes that are not known are named where prices count on them."""

from __future__ import annotations

from pathlib import Path

from cli_calls import call, record_of
from onnx_builders import make_model, op, save, value


def test_reports_name_what_is_priced_by_its_flop_alone(tmp_path: Path) -> None:
    node = op("Einsum", "a b c", "y", "three", equation="ij,jk,kl->il")
    shapes = {"a": (2, 3), "b": (3, 4), "c": (4, 5)}
    proto = make_model([node], [value(n, s) for n, s in shapes.items()], [value("y", (2, 5))])
    path = save(proto, tmp_path)
    words = ("simulate", path, "--platform", "intel-core-ultra-155h-cpu")
    told = record_of(*words)
    assert told["problem"]["unsized"] == {"three": "the sizes of its product are unknown"}
    assert told["problem"]["unpriced"] == {}
    shown = call(*words).stdout
    assert "by FLOP" in shown
    assert "1 node (Einsum 1): the sizes of its product are unknown" in " ".join(shown.split())
    by_datasheet = record_of(*words, "--cost", "roofline")
    assert by_datasheet["problem"]["unsized"] == {}


def test_reports_name_values_that_count_as_no_bytes(tmp_path: Path) -> None:
    nodes = [op("SequenceConstruct", "x x", "s"), op("ConcatFromSequence", "s", "y", axis=0)]
    path = save(make_model(nodes, [value("x", (2, 3))], [value("y", (4, 3))]), tmp_path)
    words = ("simulate", path, "--platform", "intel-core-ultra-155h-cpu")
    assert record_of(*words)["problem"]["uncounted"] == {"s": "sequence"}
    shown = " ".join(call(*words).stdout.split())
    assert "not counted bytes of 1 value (sequence 1), known only in a run" in shown
