"""Certificates of recommendations, changed as trees and as text."""

from __future__ import annotations

from pathlib import Path
from random import Random

from certificate_parts import certified
from fuzz import texts, trees

_SEEDS = (2, 3, 5)


class Certificates:
    """True certificates of small questions, changed."""

    def __init__(self, root: Path) -> None:
        self._trees = tuple(certified(seed) for seed in _SEEDS)

    def __call__(self, rng: Random, folder: Path) -> list[list[str]]:
        """Write one; what checks it."""
        tree = trees.mutated(rng, rng.choice(self._trees), donors=self._trees)
        data = texts.encoded(texts.as_json(rng, tree))
        if rng.random() < 0.1:
            data = texts.changed(rng, data)
        (folder / "certificate.json").write_bytes(data)
        few = ["--events", "20000"]
        return [
            ["recommend", "--verify", "certificate.json", *few],
            ["recommend", "--verify", "certificate.json", "--json", *few],
        ]
