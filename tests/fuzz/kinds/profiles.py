"""Profiles of runtimes: those of ONNX Runtime, trtexec and AI Hub as JSON, OpenVINO's as CSV."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import onnx

from fuzz import texts, trees
from fuzz.kinds.platforms import BOX, write_box
from profile_builders import (
    ai_hub_profile,
    openvino_table,
    ort_profile,
    trt_profile,
    unit_model,
)

PROFILE = "profile"
_LAYERS = (
    ("conv1", 50.0, "Conv"),
    ("relu1", 5.0, "Relu"),
    ("conv2", 60.0, "Conv"),
    ("relu2", 6.0, "Relu"),
    ("add", 3.0, "Add"),
    ("pool", 2.0, "GlobalAveragePool"),
    ("flat", 1.0, "Flatten"),
    ("head", 4.0, "MatMul"),
)


def _originals() -> tuple[Any, ...]:
    fused = {"conv1 + relu1": 0.5, "conv2 + relu2": 0.7, "add": 0.1, "pool": 0.1, "head": 0.2}
    rows = [(name, "EXECUTED", kind, us / 1000) for name, us, kind in _LAYERS]
    layers = [
        {"name": name, "type": kind, "compute_unit": "NPU", "execution_time": us}
        for name, us, kind in _LAYERS
    ]
    return (
        ort_profile(_LAYERS, 2),
        trt_profile(fused),
        ai_hub_profile(layers, 200),
        openvino_table([rows, rows]),
    )


class Profiles:
    """Profiles of one model, in each format."""

    def __init__(self, root: Path) -> None:
        self._originals = _originals()
        self._model = root / "unit.onnx"
        onnx.save(unit_model(), self._model)

    def __call__(self, rng: Random, folder: Path) -> list[list[str]]:
        """Write a profile; every verb that takes one."""
        write_box(folder)
        shutil.copyfile(self._model, folder / "unit.onnx")
        one = rng.choice(self._originals)
        if isinstance(one, str):
            data = texts.changed(rng, one.encode())
        elif rng.random() < 0.25:
            data = texts.changed(rng, json.dumps(one, indent=1).encode())
        else:
            donors = tuple(other for other in self._originals if not isinstance(other, str))
            tree = trees.mutated(rng, one, donors=donors)
            data = texts.encoded(texts.as_json(rng, tree))
        (folder / PROFILE).write_bytes(data)
        device = rng.choice(("cpu", "npu", "dsp"))
        how = ["unit.onnx", "--platform", BOX, "--profile", f"{device}={PROFILE}"]
        return [
            ["inspect", "--nodes", *how],
            ["inspect", "--nodes", *how, "--json"],
            ["simulate", *how],
            ["simulate", *how, "--strategy", "single:cpu", "--json"],
            ["partition", *how],
            ["compare", *how, "--strategy", "heft"],
            ["inspect", "--lint", *how],
            ["run", *how, "--executor", "threads", "--timeout", "20s"],
        ]
