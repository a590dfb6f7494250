"""Latency of a network measured by the user on a device."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from hetsim.core.units import format_seconds, parse_seconds
from hetsim.errors import UsageError

LONGEST_S = 86400.0
"""Maximum seconds of a network: a day is a mistake of units."""

ZOO = "zoo:"
_NUMBER = re.compile(r"[0-9.]+(e[+-]?[0-9]+)?")
FORM = "MODEL:TIME[:PRECISION][:batch=N][:threads=N], e.g. resnet50.onnx:4.1ms:int8:batch=8"


@dataclass(frozen=True, slots=True)
class Measurement:
    """Latency of a network on a device, with inputs and outputs in the device's memory.

    - `model`: path of an ONNX file, or ``zoo:NAME``.
    - `seconds`: seconds of one run of the whole network, the median or mean of several.
    - `precision`: one of ``hetsim.hardware.variants.PRECISIONS``; empty: that in which the device
    runs the model.
    - `batch`: requests in the run; 0: the batch size of the file, or 1 if it is open.
    - `threads`: threads of the CPU; 0: not stated.
    - `source`: file that states it; empty: the caller.
    - `in_device_file`: whether the device's own file states it.
    """

    model: str
    seconds: float
    precision: str = ""
    batch: int = 0
    threads: int = 0
    source: str = ""
    in_device_file: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= LONGEST_S:
            raise UsageError(
                f"a latency of {self.seconds:g} s is not above 0 s and at most a day",
                where=self.model,
            )

    def __str__(self) -> str:
        parts = [self.model, format_seconds(self.seconds).replace(" ", ""), self.precision]
        parts += [f"batch={self.batch}"] if self.batch else []
        parts += [f"threads={self.threads}"] if self.threads else []
        return ":".join(part for part in parts if part)

    def beside(self, folder: Path, source: str) -> Measurement:
        """Return the measurement as stated by the file `source` in `folder`.

        A model's path is relative to that folder, unless it exists as given.
        """
        model = self.model
        if not model.startswith(ZOO) and not Path(model).exists():
            model = str(folder / model)
        return replace(self, model=model, source=source)


def split_model(text: str) -> tuple[str, list[str]]:
    """Return the model or file at the start of `text`, and the parts behind it.

    >>> split_model("zoo:resnet50:4.1ms:int8")
    ('zoo:resnet50', ['4.1ms', 'int8'])
    """
    zoo = ZOO if text.startswith(ZOO) else ""
    first, *parts = text.removeprefix(zoo).split(":")
    return zoo + first, parts


def read_time(text: str) -> float | None:
    """Return the seconds of a duration; None for other text.

    Raises UsageError for a number without a unit.
    """
    seconds = parse_seconds(text)
    if seconds is None and _NUMBER.fullmatch(text.strip()):
        raise UsageError(f"the time '{text}' has no unit", hint=f"write {text.strip()}ms")
    return seconds
