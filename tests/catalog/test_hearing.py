"""What kins hear of each other: closed forms, and what stays as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog.fit import kin_text
from catalog.likeness import (
    SHARES,
    USUAL_ALIKE,
    USUAL_SQUARES,
    Unseen,
    heard_of,
    misses,
    with_heard,
)
from catalog.points import Point, Series
from figure_builders import kin_block, kin_record
from hetsim.cost.kernels.networks import KernelTable, network_table
from hetsim.hardware.files.kernels_schema import KinModel
from hetsim.hardware.kin import TRAITS, KnownNetwork, RelatedNetwork
from kernel_graphs import chain

MISSES = (0.3, -0.2, 0.1, 0.0, 0.4, -0.3)
OWN = {(f"{name}.onnx", 1): miss for name, miss in zip("abcdef", MISSES, strict=True)}
SIGNS = (1, 1, -1, -1, 1, 1)
ROUGH = {key: miss + 0.25 * sign for (key, miss), sign in zip(OWN.items(), SIGNS, strict=True)}


class Made:
    """Tables of any network: the same chain."""

    def table(self, file: str) -> KernelTable:
        return network_table(chain("Conv", "Relu", "Softmax"))


def test_a_miss_is_the_median_of_what_was_left_out_by_the_form_alone() -> None:
    series = Series("k", "chip", "npu", "int8")
    point = Point("a.onnx", 1, 1.0, 1, 1.0, 1.0, None)
    unseen = [Unseen(series, point, miss, 9.0, 9.0) for miss in (-0.1, -0.3, 0.8)]
    unseen.append(Unseen(series, replace(point, batch=4), 0.5))
    assert misses(unseen) == {("a.onnx", 1): 0.1, ("a.onnx", 4): -0.5}


def test_what_is_heard_follows_by_a_line_through_nothing() -> None:
    twice = {key: miss / 2 for key, miss in OWN.items()}
    factor, share = heard_of(OWN, twice)
    squares = sum(miss**2 for miss in OWN.values())
    both = squares / 2 + USUAL_ALIKE * USUAL_SQUARES
    assert factor == pytest.approx(both / (squares / 4 + USUAL_SQUARES))
    assert share == SHARES[1]
    assert 0 < heard_of(OWN, ROUGH)[1] < SHARES[1]
    odd = {**twice, ("f.onnx", 1): 100.0}
    assert heard_of(OWN, odd) == heard_of(OWN, {**twice, ("f.onnx", 1): 3 * 0.125})


def test_a_kin_hears_of_what_it_did_not_run_from_who_tells_most() -> None:
    kin = kin_record()
    close = {**OWN, ("new.onnx", 1): 0.5, ("new.onnx", 4): 0.2}
    rough = ROUGH | {("new.onnx", 1): -0.7, ("other.onnx", 1): 0.1}
    found = with_heard(kin, OWN, [rough, close], Made())  # type: ignore[arg-type]
    assert found == with_heard(kin, OWN, [close, rough], Made())  # type: ignore[arg-type]
    names = [(one.network.name, one.network.batch) for one in found.heard]
    assert names == [("new", 1), ("new", 4), ("other", 1)]
    factor, share = heard_of(OWN, close)
    assert found.heard[0].share == share
    assert found.heard[0].network.effect * share == pytest.approx(0.5 * factor)
    assert replace(found, heard=()) == kin


def test_the_file_has_what_is_heard() -> None:
    place = tuple(0.1 * at for at in range(len(TRAITS)))
    alone = tuple(0.2 * at for at in range(len(TRAITS)))
    heard = (
        RelatedNetwork(KnownNetwork("a", 1, 1, 0.3, place, place), 0.4),
        RelatedNetwork(KnownNetwork("b", 8, 1, -0.3, place, alone), 0.5),
    )
    lines = kin_text(replace(kin_record(), heard=heard)).partition("heard: |\n")[2]
    block = kin_block()
    block["likeness"]["heard"] = "\n".join(line.strip() for line in lines.splitlines())
    read = KinModel.model_validate(block).to_kin("k").heard
    assert [one.share for one in read] == [0.4, 0.5]
    for one, was in zip(read, heard, strict=True):
        assert one.network.traits == pytest.approx(was.network.traits)
        assert one.network.alone == pytest.approx(was.network.alone)
