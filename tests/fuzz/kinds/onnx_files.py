"""ONNX files: fields of their messages changed, and their bytes."""

from __future__ import annotations

from pathlib import Path
from random import Random

from fuzz import messages, texts
from fuzz.kinds.models import DIMS, WEIGHTS, originals, write_weights
from fuzz.kinds.platforms import write_box

MODEL = "m.onnx"


class OnnxFiles:
    """Small models, a few fields or bytes changed."""

    def __init__(self, root: Path) -> None:
        self._models = originals()

    def __call__(self, rng: Random, folder: Path) -> list[list[str]]:
        """Write a model and what it needs; every verb that takes a model."""
        proto = rng.choice(self._models)
        as_bytes = rng.random() < 0.15
        if not as_bytes or rng.random() < 0.3:
            proto = messages.mutated(rng, proto, self._models)
        data = proto.SerializeToString()
        if as_bytes:
            data = texts.changed(rng, data)
        (folder / MODEL).write_bytes(data)
        write_weights(folder)
        if rng.random() < 0.03:
            weights = (folder / WEIGHTS).read_bytes()
            (folder / WEIGHTS).write_bytes(texts.changed(rng, weights))
        platform = write_box(folder)
        model = [MODEL, "--platform", platform]
        how = list(DIMS) if rng.random() < 0.7 else []
        level = rng.choice(([], [], ["--canonical", "none"], ["--canonical", "extended"]))
        how = how + level
        return [
            ["inspect", MODEL, *how],
            ["inspect", *model, "--json", *how],
            ["inspect", "--nodes", *model, *how],
            ["partition", *model, "--method", "all", *how],
            ["partition", *model, "--onnx", "out", *how],
            ["simulate", *model, "--strategy", "heft", *how],
            ["simulate", *model, "--affinity", "model", "--json", *how],
            ["run", *model, "--executor", "threads", "--timeout", "20s", *how],
            ["compile", *model, "--out", "out", *how],
            ["compare", *model, "--strategy", "heft", "--report", "out.html", *how],
            ["inspect", "--lint", *model, *how],
            ["devices", "query", "npu.yaml", MODEL, *how],
        ]
