"""The manifest: what a result was made with. The one report that holds a time of day."""

from __future__ import annotations

import json
import platform as host
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from hetsim.problem.problem import Problem
from hetsim.version import __version__

PACKAGES = ("onnx", "onnxruntime", "numpy", "ray")


def manifest_json(
    problem: Problem,
    command: Sequence[str],
    seed: int,
    measured: Mapping[str, float] | None = None,
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
    """
    model, platform = problem.model, problem.platform
    record: dict[str, Any] = {
        "schema": "hetsim-manifest/1",
        "created_utc": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": list(command),
        "seed": seed,
        "model": None
        if model is None
        else {"source": model.source, "sha256": model.sha256, "canonical": model.canonical},
        "platform": None
        if platform is None
        else {"source": platform.source, "sha256": platform.sha256},
        "profiles": {
            device: {"source": share.profile.source, "sha256": share.profile.sha256}
            for device, share in problem.profiles.items()
        },
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


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
