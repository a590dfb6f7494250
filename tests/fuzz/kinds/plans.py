"""Saved plans: their JSON changed, the model and the platform that they name beside them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import onnx

from cli_calls import call
from fuzz import texts, trees
from fuzz.kinds.models import DIMS, attention, chain, quantized
from fuzz.kinds.platforms import BOX, write_box
from odd_graphs import functions

PLAN = "plan.json"
_MADE: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("chain.onnx", chain, ("--strategy", "heft")),
    ("quantized.onnx", quantized, ("--strategy", "chain-dp")),
    ("attention.onnx", attention, ("--strategy", "single:cpu", *DIMS)),
    ("functions.onnx", lambda: functions()[0], ("--strategy", "heft", "--what-if", "npu.speed x2")),
)


class Plans:
    """Plans of a few models, changed as trees and as text."""

    def __init__(self, root: Path) -> None:
        self._root = root
        write_box(root)
        self._plans: list[tuple[str, Any]] = []
        for name, make, how in _MADE:
            onnx.save(make(), root / name)
            made = call("simulate", name, "--platform", BOX, "--out", "made", *how)
            assert made.exit_code == 0, made.stderr
            self._plans.append((name, json.loads(Path("made", PLAN).read_text())))
            shutil.rmtree("made")

    def __call__(self, rng: Random, folder: Path) -> list[list[str]]:
        """Write a plan; every verb that takes one."""
        name, tree = rng.choice(self._plans)
        shutil.copyfile(self._root / name, folder / name)
        write_box(folder)
        changed = tree
        if rng.random() < 0.85:
            changed = trees.mutated(rng, tree, donors=tuple(one for _, one in self._plans))
        data = texts.encoded(texts.as_json(rng, changed))
        if changed is tree or rng.random() < 0.05:
            data = texts.changed(rng, data)
        (folder / PLAN).write_bytes(data)
        return [
            ["simulate", PLAN],
            ["simulate", PLAN, "--json"],
            ["simulate", PLAN, "--what-if", "cpu.speed x2"],
            ["inspect", "--nodes", PLAN],
            ["run", PLAN, "--executor", "threads", "--timeout", "20s"],
            ["compile", PLAN, "--out", "out"],
            ["report", PLAN, "--out", "out.html"],
            ["partition", name, "--platform", BOX, "--affinity", PLAN],
        ]
