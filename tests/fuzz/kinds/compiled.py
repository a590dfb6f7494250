"""Folders of compiled plans: what is in them changed, digests right or not."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from random import Random
from typing import Any

import onnx

from cli_calls import call
from fuzz import messages, texts, trees
from fuzz.kinds.models import attention, chain, loop_model, originals, quantized
from fuzz.kinds.platforms import BOX, write_box

FOLDER, MANIFEST = "compiled", "manifest.json"
_MADE = (("chain", chain), ("quantized", quantized), ("attention", attention), ("loop", loop_model))


class Compiled:
    """Folders of a few models; one file of a folder changed."""

    def __init__(self, root: Path) -> None:
        write_box(root)
        self._donors = originals()
        self._folders = []
        for name, make in _MADE:
            onnx.save(make(), root / f"{name}.onnx")
            words = ("--platform", BOX, "--dim", "*=2", "--out", name)
            made = call("compile", f"{name}.onnx", *words)
            assert made.exit_code == 0, made.stderr
            self._folders.append(root / name)

    def __call__(self, rng: Random, folder: Path) -> list[list[str]]:
        """Write a folder; the verbs that take it."""
        write_box(folder)
        to = folder / FOLDER
        shutil.copytree(rng.choice(self._folders), to)
        names = sorted(path.name for path in to.iterdir())
        name = rng.choice([*names, MANIFEST, MANIFEST])
        path = to / name
        data = path.read_bytes()
        if rng.random() < 0.03:
            path.unlink()
        elif name.endswith(".json") and rng.random() < 0.85:
            self._json(rng, to, name)
        elif name.endswith(".onnx") and rng.random() < 0.85:
            proto = messages.mutated(rng, onnx.ModelProto.FromString(data), self._donors)
            path.write_bytes(proto.SerializeToString())
            if rng.random() < 0.9:
                self._told_anew(to, name)
        else:
            path.write_bytes(texts.changed(rng, data))
            if rng.random() < 0.5 and name != MANIFEST:
                self._told_anew(to, name)
        return [
            ["run", FOLDER, "--executor", "threads", "--timeout", "20s"],
            ["run", FOLDER, "--executor", "threads", "--timeout", "20s", "--json"],
            ["report", FOLDER, "--out", "out.html"],
        ]

    def _json(self, rng: Random, to: Path, name: str) -> None:
        tree = json.loads((to / name).read_text())
        tree.pop("sha256", None)
        changed = trees.mutated(rng, tree)
        if name == MANIFEST and isinstance(changed, dict) and rng.random() < 0.9:
            _sealed(changed)
        (to / name).write_bytes(texts.encoded(texts.as_json(rng, changed)))
        if name != MANIFEST:
            self._told_anew(to, name)

    def _told_anew(self, to: Path, name: str) -> None:
        """Let the manifest state the file as it is."""
        tree = json.loads((to / MANIFEST).read_text())
        data = (to / name).read_bytes()
        for record in _records(tree):
            if record.get("file") == name:
                record.update(nbytes=len(data), sha256=hashlib.sha256(data).hexdigest())
        tree.pop("sha256", None)
        _sealed(tree)
        (to / MANIFEST).write_text(json.dumps(tree))


def _records(tree: Any) -> list[dict[str, Any]]:
    if isinstance(tree, dict):
        return [tree, *(one for inner in tree.values() for one in _records(inner))]
    return [one for inner in tree for one in _records(inner)] if isinstance(tree, list) else []


def _sealed(tree: dict[str, Any]) -> None:
    """Add the digest that a manifest ends with, where the tree is one that can be written."""
    from hetsim.execution.compiled.manifest import _digest

    try:
        tree["sha256"] = _digest(tree)
    except (TypeError, ValueError, RecursionError):
        tree["sha256"] = "0" * 64
