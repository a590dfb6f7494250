"""Traces of requests: CSV and JSON lines, compressed or not, changed as text."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from random import Random

import onnx

from fuzz import texts
from fuzz.kinds.models import attention
from fuzz.kinds.platforms import BOX, write_box

_AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
    f"2023-11-16 18:17:{second:02d}.9799600,{tokens},10\n"
    for second, tokens in ((3, 4), (4, 6), (4, 5), (9, 3))
)
_MOONCAKE = "".join(
    json.dumps({"timestamp": at, "input_length": size, "output_length": 5, "hash_ids": [1]}) + "\n"
    for at, size in ((0, 3), (12, 5), (3000, 4))
)
_PLAIN = "arrival,size\n0.5,3\n0.75,4\n1.5,8\n"
_BARE = "0.1\n0.2\n0.9\n"
_ORIGINALS: tuple[tuple[str, str, str], ...] = (
    (_AZURE, "", "ContextTokens"),
    (_MOONCAKE, "", "input_length"),
    (_PLAIN, ", column: arrival, unit: s", "size"),
    (_BARE, "", ""),
    (
        '{"at": 1, "size": 3}\n{"at": 2, "size": 4}\n',
        ", format: jsonl, column: at, unit: ms",
        "size",
    ),
)
_WORKLOAD = """
streams:
  one:
    model: attention.onnx
    arrivals: {{replay: {{path: {path}{how}}}}}
    slos: p99=50ms
    dims: {dims}
"""


class Traces:
    """A trace, and a workload that replays it."""

    def __init__(self, root: Path) -> None:
        self._model = root / "attention.onnx"
        onnx.save(attention(), self._model)

    def __call__(self, rng: Random, folder: Path) -> list[list[str]]:
        """Write both; the verbs that play them."""
        write_box(folder)
        shutil.copyfile(self._model, folder / "attention.onnx")
        text, how, column = rng.choice(_ORIGINALS)
        data = texts.changed(rng, text.encode())
        path = "trace"
        if rng.random() < 0.15:
            data, path = gzip.compress(data, mtime=0), "trace.gz"
            if rng.random() < 0.5:
                data = texts.changed(rng, data)
        (folder / path).write_bytes(data)
        length = f"{{column: {column}, buckets: [4, 8]}}" if column else "4"
        dims = f"{{batch: 1, length: {length}}}"
        (folder / "w.yaml").write_text(_WORKLOAD.format(path=path, how=how, dims=dims))
        return [
            ["inspect", "w.yaml"],
            ["inspect", "w.yaml", "--json"],
            ["simulate", "--workload", "w.yaml", "--platform", BOX],
        ]
