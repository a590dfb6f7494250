"""Fleets of unlike devices behind one host, and deployments on them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

import hetsim
from hetsim.workload.deployment import ROUTINGS, DynamicBatching, Instances, Served

KINDS = {
    "t4": "nvidia-t4",
    "l4": "nvidia-l4",
    "arc": "intel-core-ultra-155h-igpu",
    "npu": "intel-core-ultra-155h-npu",
}


def fleet(folder: Path, counts: dict[str, int], bus: bool = False) -> hetsim.Platform:
    """So many of each kind, each on a link of its own; `bus`: on one that they share."""
    names = [f"{kind}.{at}" for kind, count in counts.items() for at in range(count)]
    lines = ["host: cpu", "devices:", "  cpu: intel-core-ultra-155h-cpu"]
    lines += [f"  {name}: {KINDS[name.partition('.')[0]]}" for name in names]
    shared = ", bus: one" if bus else ""
    lines.append("links:")
    lines += [
        f"  - {{between: [cpu, {name}], latency_us: 5, bandwidth_gbytes_s: 10{shared}}}"
        for name in names
    ]
    path = (
        folder / f"fleet_{bus}_{'_'.join(f'{kind}{count}' for kind, count in counts.items())}.yaml"
    )
    path.write_text("\n".join(lines) + "\n")
    return hetsim.load_platform(path)


def random_entries(rng: np.random.Generator, names: Sequence[str]) -> tuple[Instances, ...]:
    """Instances of one device or two, some twice, in any order."""
    entries = []
    for name in rng.permutation(list(names)) if rng.random() < 0.3 else names:
        if rng.random() < 0.15:
            continue
        devices: tuple[str, ...] = (str(name),)
        strategy = None
        if rng.random() < 0.15:
            other = str(rng.choice(list(names)))
            devices = tuple(dict.fromkeys((*devices, other)))
            strategy = "pipeline:" + ",".join(devices) if len(devices) > 1 else None
        entries.append(Instances(int(rng.integers(1, 3)), devices, strategy=strategy))
    return tuple(entries) or (Instances(devices=(names[0],)),)


def random_served(rng: np.random.Generator, model: str, names: Sequence[str]) -> Served:
    """One model in any manner."""
    batches = DynamicBatching(4, (), int(rng.integers(0, 2)) * 500) if rng.random() < 0.3 else None
    return Served(
        model,
        "single",
        instances=random_entries(rng, names),
        routing=ROUTINGS[rng.integers(3)],
        dynamic_batching=batches,
    )
