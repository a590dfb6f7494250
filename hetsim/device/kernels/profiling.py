"""Real seconds by kernel, as ONNX Runtime's profiler takes them down."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hetsim.core.scratch import scratch_folder

if TYPE_CHECKING:
    import onnxruntime

_SUFFIX = "_kernel_time"


@dataclass(frozen=True, slots=True)
class KernelTime:
    """What one node took.

    Attributes
    ----------
    node, op_type : str
    runs : int
        Times that it was run.
    seconds : float
        Wall clock of all of them together, to the microsecond.
    """

    node: str
    op_type: str
    runs: int
    seconds: float


class Profile:
    """The profile of one session, in a folder of its own until it is read."""

    def __init__(self, options: onnxruntime.SessionOptions) -> None:
        self._lasting = ExitStack()
        folder = self._lasting.enter_context(scratch_folder())
        options.enable_profiling = True
        options.profile_file_prefix = str(folder / "profile")

    def end(self, session: onnxruntime.InferenceSession) -> tuple[KernelTime, ...]:
        """Stop profiling `session` and return the times by node, in order of the first run."""
        with self._lasting:
            events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        found: dict[str, tuple[str, int, int]] = {}
        for event in events:
            name = event.get("name", "")
            if event.get("cat") != "Node" or not name.endswith(_SUFFIX):
                continue
            node = name.removesuffix(_SUFFIX)
            op_type, runs, total_us = found.get(node, (event["args"]["op_name"], 0, 0))
            found[node] = op_type, runs + 1, total_us + event["dur"]
        return tuple(
            KernelTime(node, op_type, runs, total_us / 1e6)
            for node, (op_type, runs, total_us) in found.items()
        )
