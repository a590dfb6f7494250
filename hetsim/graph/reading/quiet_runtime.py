"""ONNX Runtime, silent: what goes wrong in it is told by its exceptions."""

from __future__ import annotations

import functools
from typing import Any

SILENT = 4
"""Of its levels of messages: what is fatal alone."""


@functools.cache
def quiet_runtime() -> Any:
    """Return onnxruntime with nothing to say on stderr outside of its sessions.

    Sessions are told so one by one; what is done for several of them, as making room for a result,
    would print its complaint in colours.
    """
    import onnxruntime

    onnxruntime.set_default_logger_severity(SILENT)
    return onnxruntime
