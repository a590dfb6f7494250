"""Child process that opens the files of a compiled plan first.

A separate module, as other imports of a run take longer than opening the files.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

from hetsim.device.kernels.onnx_runtime import CompiledSubgraph
from hetsim.errors import HetsimError
from hetsim.graph.reading.onnx_file import read_onnx


def open_all(memory_bytes: int) -> None:
    """Run as the child: open the files named on stdin, and print an error or "" for each."""
    # Other output to stdout must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    if importlib.util.find_spec("resource") is not None:
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        limit = memory_bytes if most == resource.RLIM_INFINITY else min(memory_bytes, most)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
    folder, wanted = json.loads(sys.stdin.read())
    for file, outputs in wanted:
        said = ""
        try:
            CompiledSubgraph(
                read_onnx(Path(folder, file)).proto.SerializeToString(), folder, outputs
            )
        except HetsimError as error:
            said = error.what
        print(json.dumps(said), file=answers, flush=True)
