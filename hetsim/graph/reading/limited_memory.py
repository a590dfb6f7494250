"""ONNX Runtime's sessions that may take so much memory and no more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hetsim.graph.reading.quiet_runtime import quiet_runtime

OVER_LIMIT = "is smaller than requested bytes of"
"""What a session says that was to take more memory than it may."""

_registering = threading.Lock()
_SMALL_BYTES = 2**20
_AS_REQUESTED = 1
_UNSET = (
    "initial_chunk_size_bytes", "max_dead_bytes_per_chunk", "initial_growth_chunk_size_bytes"
)  # fmt: skip


@contextmanager
def limited(options: Any, most_bytes: int | None) -> Iterator[None]:
    """Have a session that is opened within take no more memory than that, before it is taken.

    Nothing ends a kernel that is under way, which may take all there is at once.
    """
    if most_bytes is None:
        yield
        return
    options.add_session_config_entry("session.use_env_allocators", "1")
    # What a process has one of goes to the session that is opened next, and stays its own.
    with _registering:
        _register(most_bytes)
        try:
            yield
        finally:
            _register(_SMALL_BYTES)


def _register(most_bytes: int) -> None:
    ort = quiet_runtime()
    sizes = {"max_mem": most_bytes, "arena_extend_strategy": _AS_REQUESTED}
    place = ort.OrtMemoryInfo(
        "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT
    )
    config = ort.OrtArenaCfg({**sizes, **dict.fromkeys(_UNSET, -1)})
    ort.create_and_register_allocator(place, config)
