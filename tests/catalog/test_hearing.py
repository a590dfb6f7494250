"""What kins hear of each other: closed forms, and what stays as it was."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from catalog.figures import kin_text
from catalog.leaving_out import (
    SHARES,
    USUAL_ALIKE,
    USUAL_SQUARES,
    Unseen,
    are_relatives,
    heard_of,
    misses,
    with_heard,
)
from catalog.points import Point, Series
from figure_builders import kin_block, kin_record
from hetsim.cost.kernels.likeness import Likeness
from hetsim.cost.kernels.networks import KernelTable, network_table
from hetsim.hardware.files.kernels_schema import KinModel
from hetsim.hardware.kin import TRAITS, Heard, KnownNetwork
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


def test_too_few_or_unlike_networks_say_nothing() -> None:
    few = dict(list(OWN.items())[:4])
    assert heard_of(OWN, few) == heard_of(few, OWN) == (0.0, 0.0)
    assert heard_of(OWN, {key: -miss for key, miss in OWN.items()}) == (0.0, 0.0)
    assert not are_relatives("ncnn-cpu-float", "ncnn-cpu-float")


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


def test_what_is_heard_is_expected_by_its_share_and_known_as_well() -> None:
    place = (5.0, *[0.0] * (len(TRAITS) - 1))
    heard = Heard(KnownNetwork("new", 1, 1, 0.3, place, place), 0.4)
    kin = replace(kin_record(shared=0.0), heard=(heard,))
    plain, told = (Likeness.of(one) for one in (kin_record(shared=0.0), kin))
    where = np.array(place)
    found = told.predict(where, 1, where)
    assert found.effect == pytest.approx(0.4 * 0.3, rel=1e-6)
    assert found.sd == pytest.approx(kin.sd * math.sqrt(1 - 0.4), rel=1e-6)
    assert (found.same, found.networks) == (False, ("new",))
    # What the kin ran is what it was.
    for one in kin.networks:
        at = np.array(one.traits)
        was, now = (each.predict(at, one.batch, np.array(one.alone)) for each in (plain, told))
        assert (now.effect, now.sd) == (pytest.approx(was.effect), pytest.approx(was.sd))
        assert now.same
        assert now.usual_sd == pytest.approx(was.usual_sd)


def test_the_file_has_what_is_heard() -> None:
    place = tuple(0.1 * at for at in range(len(TRAITS)))
    alone = tuple(0.2 * at for at in range(len(TRAITS)))
    heard = (
        Heard(KnownNetwork("a", 1, 1, 0.3, place, place), 0.4),
        Heard(KnownNetwork("b", 8, 1, -0.3, place, alone), 0.5),
    )
    lines = kin_text(replace(kin_record(), heard=heard)).partition("heard: |\n")[2]
    block = kin_block()
    block["likeness"]["heard"] = "\n".join(line.strip() for line in lines.splitlines())
    read = KinModel.model_validate(block).to_kin("k").heard
    assert [one.share for one in read] == [0.4, 0.5]
    for one, was in zip(read, heard, strict=True):
        assert one.network.traits == pytest.approx(was.network.traits)
        assert one.network.alone == pytest.approx(was.network.alone)


@pytest.mark.parametrize("share", ["0", "1", "x"])
def test_a_wrong_line_of_what_is_heard_is_refused(share: str) -> None:
    block = kin_block()
    block["likeness"]["heard"] = f"a 1 {share} " + "0 " * (1 + len(TRAITS))
    with pytest.raises(ValueError, match="a line 1"):
        KinModel.model_validate(block)
