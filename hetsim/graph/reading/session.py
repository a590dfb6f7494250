"""ONNX Runtime's sessions: silent, of limited memory."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hetsim.core.signals import ending_left_to_others

SILENT = 4
"""Of its levels of messages: what is fatal alone."""


@functools.cache
def quiet_runtime() -> Any:
    """Return onnxruntime with nothing to say on stderr outside of its sessions.

    Sessions are told so one by one; what is done for several of them, as making room for a result,
    would print its complaint in colours.
    """
    # It starts a thread of its own, which would take signals that the main thread holds back.
    with ending_left_to_others():
        import onnxruntime

    onnxruntime.set_default_logger_severity(SILENT)
    return onnxruntime


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
