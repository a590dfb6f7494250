"""Which machine is measured, so that its figures are not mixed with another's."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path


def machine() -> Mapping[str, str]:
    """Return what tells this machine from others: processor, cores that may be used, system."""
    return {
        "processor": _processor(),
        "cores": str(cores()),
        "system": f"{platform.system()} {platform.machine()}",
    }


def cores() -> int:
    """Return the number of processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    """The processor's name, with family and model where the name alone says little."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields: dict[str, str] = {}
    for line in lines:
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), " ".join(value.split()))
    name = fields.get("model name") or fields.get("Model") or fields.get("Hardware")
    if name is None:
        parts = [fields[key] for key in ("CPU implementer", "CPU part") if key in fields]
        return " ".join(("ARM", *parts)) if parts else platform.machine()
    if "cpu family" in fields and "model" in fields:
        name += f" (family {fields['cpu family']}, model {fields['model']})"
    return name
