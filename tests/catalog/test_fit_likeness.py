"""What a kin's fit says of networks: effects it was given, leaving out, and its file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from catalog.fit import kin_text, write_fitted
from catalog.kin_data import KinData, Prior
from catalog.likeness import (
    called,
    kin_of,
    said,
    traits_of_keys,
    without_chip,
    without_family,
    without_network_on_chip,
)
from catalog.mixed import KinFit, fit_kin
from hetsim.hardware.files.checking import check_file
from hetsim.hardware.files.reader import read_kin
from hetsim.hardware.kernel_figures import PARAMETERS
from hetsim.hardware.kin import TRAITS
from kin_builders import KIN

ODD = 0.4


@pytest.fixture(scope="module")
def made(made: KinData) -> KinData:
    """A kin that follows the model, but for one network that takes all of them longer."""
    odd = made.network[made.key] == 4
    return replace(made, log_seconds=made.log_seconds + np.where(odd, ODD, 0.0))


@pytest.fixture(scope="module")
def fit(made: KinData, prior: Prior) -> KinFit:
    return fit_kin(made, prior)


def test_the_effect_of_a_network_is_what_devices_leave_of_it(made: KinData, fit: KinFit) -> None:
    record = kin_of(made, fit, traits_of_keys(made, fit))
    assert [one.name for one in record.networks] == [called(file) for file, _ in made.keys]
    assert {one.devices for one in record.networks} == {6}
    effects = [one.effect for one in record.networks]
    assert effects[4] == max(effects) == pytest.approx(ODD, abs=0.15)
    known = said(made, fit)
    assert known.effects[4] == pytest.approx(effects[4], rel=0.1)
    assert abs(known.by_others[4]) < effects[4] / 2
    assert (known.surer > 0).all()


@pytest.mark.sweep
def test_a_network_that_was_left_out_is_told_by_the_others_and_a_known_one_by_itself(
    made: KinData, prior: Prior, fit: KinFit
) -> None:
    for one in without_family(made, prior, fit):
        assert one.effect == one.by_others
        assert one.total == one.miss + one.effect
    for way in (without_network_on_chip, without_chip):
        odd = [one for one in way(made, prior, fit) if one.point.network == made.keys[4][0]]
        assert len(odd) == 6
        assert np.median([one.effect - one.by_others for one in odd]) > ODD / 4


def test_the_file_of_a_kin_is_read_back(made: KinData, fit: KinFit, tmp_path: Path) -> None:
    record = kin_of(made, fit, traits_of_keys(made, fit))
    far = replace(record, mean=(1e17, *record.mean[1:]))
    for one in (record, far):
        (path,) = write_fitted(tmp_path, {}, [one])
        assert path == tmp_path / "kin" / f"{KIN}.yaml"
        assert write_fitted(tmp_path, {}, [one]) == []
        assert path.read_text("utf-8") == kin_text(one)
        checked = check_file(str(path))
        assert (checked.sort, checked.errors) == ("kin", ())
        read = read_kin(path, str(path))
        assert read.mean == pytest.approx(one.mean, rel=1e-3)
        assert len(read.mean) == len(PARAMETERS)
        assert (read.name, read.shared, read.length) == (KIN, one.shared, one.length)
        for written, known in zip(read.networks, one.networks, strict=True):
            assert (written.name, written.batch, written.devices) == (
                known.name, known.batch, known.devices,
            )  # fmt: skip
            assert written.effect == pytest.approx(known.effect, rel=1e-3, abs=1e-9)
            assert written.traits == pytest.approx(known.traits, rel=1e-3, abs=1e-9)
            assert written.alone == pytest.approx(known.alone, rel=1e-3, abs=1e-9)
            assert len(written.traits) == len(written.alone) == len(TRAITS)
