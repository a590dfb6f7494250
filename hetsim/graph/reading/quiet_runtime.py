"""ONNX Runtime, silent: what goes wrong in it is told by its exceptions."""

from __future__ import annotations

import functools
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
