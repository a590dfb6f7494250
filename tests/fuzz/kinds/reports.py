"""What verbs leave on disk, and ``hetsim report`` reads: records, rows, pages, folders."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

from answers_on_disk import left_by_verbs
from fuzz import texts, trees


class Reports:
    """One answer of each sort, one of its files changed."""

    def __init__(self, root: Path) -> None:
        self._root = root / "left"
        self._root.mkdir()
        left_by_verbs(self._root)
        self._files = sorted(
            str(path.relative_to(self._root)) for path in self._root.rglob("*") if path.is_file()
        )

    def __call__(self, rng: Random, folder: Path) -> list[list[str]]:
        """Write all, one of them changed; reports of it alone, of all, and of what moved."""
        left = folder / "left"
        shutil.copytree(self._root, left)
        name = rng.choice(self._files)
        path = left / name
        data = path.read_bytes()
        if name.endswith((".json", ".jsonl")) and rng.random() < 0.75:
            lines = data.decode().splitlines() if name.endswith(".jsonl") else [data.decode()]
            at = rng.randrange(len(lines))
            lines[at] = texts.as_json(rng, trees.mutated(rng, json.loads(lines[at])))
            path.write_bytes(texts.encoded("\n".join(lines)))
        else:
            path.write_bytes(texts.changed(rng, data))
        source = f"left/{name.split('/')[0]}"
        shutil.copytree(self._root, folder / "before")
        before = source.replace("left", "before", 1)
        return [
            ["report", source, "--out", "out.html"],
            ["report", before, source, "--out", "out.html"],
            ["report", "left", "--out", "out.html"],
        ]
