"""The manifest: what a result was made with. The one report that holds a time of day."""

from __future__ import annotations

import json
import platform as host
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from hetsim.core.files import sha256_of
from hetsim.problem.problem import Problem
from hetsim.problem.record import supposed_record
from hetsim.version import __version__

PACKAGES = ("onnx", "onnxruntime", "numpy", "ray")


def manifest_json(
    problem: Problem,
    command: Sequence[str],
    seed: int,
    measured: Mapping[str, float] | None = None,
    *,
    others: Sequence[Problem] = (),
    files: Mapping[str, str] | None = None,
) -> str:
    """Return versions, digests, seed, command line, time in UTC, and what was measured.

    Parameters
    ----------
    problem : Problem
    command : sequence of str
        The command line, program first.
    seed : int
        Of the random inputs of a run.
    measured : mapping of str to float, optional
        Figures that differ from run to run, such as wall-clock seconds.
    others : sequence of Problem
        Those of further models on the platform.
    files : mapping of str to path, optional
        What else was read, by what it is.
    """
    platform = problem.platform
    record: dict[str, Any] = {
        "schema": "hetsim-manifest/1",
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": list(command),
        "seed": seed,
        "model": _model(problem),
        **({"other_models": [_model(one) for one in others]} if others else {}),
        "platform": None
        if platform is None
        else {
            "source": platform.source,
            "sha256": platform.sha256,
            **supposed_record(platform),
        },
        "profiles": {
            device: {"source": share.profile.source, "sha256": share.profile.sha256}
            for device, share in problem.profiles.items()
        },
        **({"files": {what: _file(path) for what, path in files.items()}} if files else {}),
        "problem": {"name": problem.name, "fingerprint": problem.fingerprint},
        "versions": {
            "python": host.python_version(),
            "hetsim": __version__,
            **{name: _installed(name) for name in PACKAGES},
        },
        "machine": {"system": host.system(), "architecture": host.machine()},
        "measured": dict(sorted((measured or {}).items())),
    }
    return json.dumps(record, indent=1) + "\n"


def _model(problem: Problem) -> dict[str, str] | None:
    model = problem.model
    if model is None:
        return None
    return {"source": model.source, "sha256": model.sha256, "canonical": model.canonical}


def _file(path: str) -> dict[str, str]:
    return {"source": path, "sha256": sha256_of(path)}


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
