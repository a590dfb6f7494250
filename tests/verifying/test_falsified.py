"""Certificates that claim what is not so are rejected, for the reason that fits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from certificates import Maker
from falsified import FALSIFIED
from hetsim.verifying import Broken, Untrue, verify
from sweeps import sweep

# Each certificate is falsified in each way that it has something for: about thirty.
CASES = [(seed, False, False) for seed in range(24)]
CASES += [(seed, True, False) for seed in range(100, 108)]
CASES += [(seed, False, True) for seed in range(2, 8)]


@sweep("seed, split, sampled", quick=[(3, False, False)], full=CASES)
def test_falsified_ones_are_rejected(seed: int, split: bool, sampled: bool, tmp_path: Path) -> None:
    text = json.dumps(Maker(seed, split=split, sampled=sampled).certificate())
    path = tmp_path / "certificate.json"
    path.write_text(text)
    verify(path)
    rejected = 0
    for number, falsify in enumerate(FALSIFIED):
        given = json.loads(text)
        reason = falsify(given, np.random.default_rng([seed, number]))
        if reason is None:
            continue
        path.write_text(json.dumps(given))
        with pytest.raises((Untrue, Broken)) as caught:
            verify(path)
        assert re.search(reason, str(caught.value)), (falsify.__name__, str(caught.value))
        rejected += 1
    assert rejected > len(FALSIFIED) / 2
