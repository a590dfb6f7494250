"""Certificates that claim what is not so are rejected, for the reason that fits."""

from __future__ import annotations

import json
from pathlib import Path

from certificates import Maker
from falsified import FALSIFIED, all_rejected
from hetsim.verifying import verify
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
    assert all_rejected(text, path, seed) > len(FALSIFIED) / 2
