"""A profile from its file; the format is told by what is in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any

from hetsim.core.files import read_regular
from hetsim.cost.profiles import ai_hub, onnx_runtime, openvino, tensorrt
from hetsim.cost.profiles.checked import READ, Reader
from hetsim.cost.profiles.record import Profile
from hetsim.errors import InvalidInput

LIMIT_BYTES = 2**26
"""Of a file: some 150,000 kernels that ran."""

MOST_KERNELS = 100_000

_FORMATS: tuple[tuple[Callable[[Any], bool], Callable[[Any, Reader, str], Profile]], ...] = (
    (ai_hub.recognised, ai_hub.read),
    (openvino.recognised, openvino.read),
    (onnx_runtime.recognised, onnx_runtime.read),
    (tensorrt.recognised, tensorrt.read),
)


def load_profile(source: str | os.PathLike[str]) -> Profile:
    """Read a profile of one of the formats that ``READ`` names.

    Raises
    ------
    InvalidInput
        Where it is no regular file, too large, of another format, or holds figures that no
        profile has: negative, not finite, or days long.
    """
    where = os.fspath(source)
    try:
        data = read_regular(source, LIMIT_BYTES)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput("not a text file", where=where, hint=f"read are {READ}") from None
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"cannot read: {what}", where=where, hint="give a profile") from None
    reader = Reader(where)
    profile = _read(text, reader, hashlib.sha256(data).hexdigest())
    if len(profile.kernels) > MOST_KERNELS:
        reader.refuse(f"it has {len(profile.kernels)} kernels: more than {MOST_KERNELS}")
    if profile.total_s == 0:
        reader.refuse("all its kernels together take no time")
    return profile


def _read(text: str, reader: Reader, sha256: str) -> Profile:
    if text.lstrip()[:1] in ("[", "{"):
        content = reader.json(text)
        for recognised, read in _FORMATS:
            if recognised(content):
                return read(content, reader, sha256)
    elif openvino.recognised_table(text):
        return openvino.read_table(text, reader, sha256)
    raise InvalidInput(
        "not a profile of a format that is known", where=reader.where, hint=f"read are {READ}"
    )
