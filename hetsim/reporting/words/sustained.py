"""What devices of a platform share, and how much slower that makes them, in words."""

from __future__ import annotations

from hetsim.base.text import plain
from hetsim.base.units import GIGA
from hetsim.hardware.spec import Platform
from hetsim.problem.parts import Slower
from hetsim.problem.problem import Problem
from hetsim.reporting.words.like_devices import folded
from hetsim.reporting.words.text import ratio


def shared_text(platform: Platform | None) -> str:
    """Return ``28 W (secondary) and 34 GB/s of memory (cpu, gpu; derived)``; empty of nothing."""
    told: list[str] = []
    if platform is not None and platform.power_w is not None:
        told.append(f"{platform.power_w:g} W ({platform.power_provenance[0]})")
    for memory in () if platform is None else platform.memories:
        devices = ", ".join(folded(memory.devices))
        told.append(
            f"{memory.bytes_per_s / GIGA:g} GB/s of memory ({devices}; {memory.provenance[0]})"
        )
    return plain(" and ".join(told))


def sustained_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return the line of a header that says within what devices are judged together."""
    shared = shared_text(problem.platform)
    if not shared:
        return [("sustained", "as fast as alone: the platform states nothing that devices share")]
    return [("sustained", f"devices that are busy at once share {shared}")]


def slower_text(problem: Problem, slower: Slower) -> str:
    """Return ``1.12x by power; by memory gpu 1.30x, dla 1.05x``."""
    parts = [f"{ratio(slower.power)} by power"] if slower.power > 1.0 else []
    drawn = [
        f"{name} {ratio(factor)}"
        for name, factor in zip(problem.devices, slower.memory, strict=True)
        if factor > 1.0
    ]
    parts += [f"by memory {', '.join(drawn)}"] if drawn else []
    return plain("; ".join(parts))
