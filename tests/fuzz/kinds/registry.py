"""The kinds of files, by name: what is called once with a folder for what it makes its cases of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from fuzz.kinds.arrays import Arrays
from fuzz.kinds.certificates import Certificates
from fuzz.kinds.compiled import Compiled
from fuzz.kinds.onnx_files import OnnxFiles
from fuzz.kinds.plans import Plans
from fuzz.kinds.profiles import Profiles
from fuzz.kinds.reports import Reports
from fuzz.kinds.traces import Traces
from fuzz.kinds.yaml_files import YamlFiles

Write = Callable[[Random, Path], Sequence[Sequence[str]]]
"""Writes a case to an empty folder; all command lines that take it."""

KINDS: dict[str, Callable[[Path], Write]] = {
    "onnx": OnnxFiles,
    "yaml": YamlFiles,
    "plan": Plans,
    "compiled": Compiled,
    "npy": Arrays,
    "profile": Profiles,
    "trace": Traces,
    "certificate": Certificates,
    "report": Reports,
}
