"""Measurements on disk as they are made, so that what was interrupted goes on."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from io import BufferedWriter
from pathlib import Path
from typing import Any, BinaryIO

from hetsim.base.files import append, read_regular, whole_file
from hetsim.base.room import out_of_room
from hetsim.calibration.record import Kernel, Setting, Taken
from hetsim.errors import InvalidInput

SCHEMA = "hetsim-calibration/1"
_LIMIT_BYTES = 2**30
_ON = "make room there and run it again: what is on disk is kept"


class Journal:
    """A file of JSON lines: the setting first, then a line a measurement.

    Parameters
    ----------
    path : path
        Made where it is not there; a last line that was cut off is dropped.
    setting : Setting

    Raises
    ------
    InvalidInput
        Where the file is no journal, or of another machine, runtime or setting.
    """

    def __init__(self, path: str | os.PathLike[str], setting: Setting) -> None:
        self.path = Path(path)
        self._taken: dict[tuple[str, int], Taken] = {}
        if self.path.exists():
            self._read(setting)
        else:
            first = {"schema": SCHEMA, "setting": asdict(setting)}
            try:
                with whole_file(self.path) as draft:
                    draft.write((json.dumps(first) + "\n").encode("utf-8"))
            except OSError as error:
                raise out_of_room(error, path) or InvalidInput(
                    f"cannot write the journal: {error.strerror or error}", where=str(path)
                ) from error

    def __contains__(self, key: tuple[str, int]) -> bool:
        return key in self._taken

    def __iter__(self) -> Iterator[Taken]:
        return iter(self._taken.values())

    def __len__(self) -> int:
        return len(self._taken)

    def add(self, taken: Taken) -> None:
        """Keep a measurement, on disk before this returns."""
        record = [
            taken.network, taken.round, taken.seconds, taken.spread, taken.waited,
            [[k.name, k.op, k.elements, k.seconds] for k in taken.kernels],
        ]  # fmt: skip
        with self._open() as stream:
            stream.write((json.dumps(record) + "\n").encode("utf-8"))
        self._taken[taken.network, taken.round] = taken

    def by_network(self) -> dict[str, list[Taken]]:
        """Return the measurements of each network, in the order of their first one."""
        found: dict[str, list[Taken]] = {}
        for taken in self._taken.values():
            found.setdefault(taken.network, []).append(taken)
        return found

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        try:
            with BufferedWriter(append(self.path)) as stream:
                yield stream
        except OSError as error:
            # A line that is cut off is dropped as the journal is read.
            raise out_of_room(error, self.path, hint=_ON) or InvalidInput(
                f"cannot write the journal: {error.strerror or error}", where=str(self.path)
            ) from error

    def _read(self, setting: Setting) -> None:
        where = str(self.path)
        try:
            data = read_regular(self.path, _LIMIT_BYTES)
            *lines, rest = data.decode("utf-8").split("\n")
            head = json.loads(lines[0])
            given = head["setting"] if head["schema"] == SCHEMA else None
        except OSError as error:
            raise InvalidInput(
                f"cannot read the journal: {error.strerror or error}", where=where
            ) from error
        except (ValueError, LookupError, TypeError):
            given = None
        if not isinstance(given, dict):
            raise InvalidInput(
                "not a journal of a calibration", where=where, hint="give another output"
            )
        wanted = asdict(setting)
        differs = [key for key in wanted if given.get(key) != wanted[key]]
        if differs:
            key = differs[0]
            raise InvalidInput(
                f"it was begun with {key} {given.get(key)!r}, and this is {wanted[key]!r}",
                where=where,
                hint="delete it to begin anew, or go on as it was begun",
            )
        for number, line in enumerate(lines[1:], start=2):
            taken = _taken(line)
            if taken is None:
                raise InvalidInput(
                    "not a measurement", where=f"{where}:{number}", hint="delete the line"
                )
            self._taken[taken.network, taken.round] = taken
        if rest:
            # The line that was being written when it was interrupted.
            with self._open() as stream:
                stream.truncate(len(data) - len(rest.encode("utf-8")))


def _taken(line: str) -> Taken | None:
    try:
        network, round_, seconds, spread, waited, kernels = json.loads(line)
        found = Taken(
            str(network),
            int(round_),
            _positive(seconds),
            float(spread),
            float(waited),
            tuple(
                Kernel(str(name), str(op), None if n is None else int(n), _positive(took))
                for name, op, n, took in kernels
            ),
        )
    except (ValueError, TypeError):
        return None
    return found


def _positive(value: Any) -> float:
    if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise ValueError(value)
    return float(value)
