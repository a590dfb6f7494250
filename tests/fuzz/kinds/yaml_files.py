"""YAML files: what they say changed, how it is written, and their bytes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import onnx
import yaml

from fuzz import texts, trees
from fuzz.kinds.models import chain
from fuzz.kinds.platforms import BOX, write_box

_ROOT = Path(__file__).parents[3]
_DEVICES = _ROOT / "devices"

WORKLOAD = """
seed: 7
duration_s: 2
requests: 200
warm_up_s: 0.1
arrivals: {mmpp: {rates_per_s: [10, 100], sojourns_s: [5, 1]}}
streams:
  chat:
    model: m.onnx
    share: 1
    slos: [p99=50.1ms, {share_on_time: 0.999, latency_ms: 80}, {percentile: 50, latency_ms: 20}]
    priority: 1
  code: {model: m.onnx, arrivals: {replay: {path: two.csv, speed_up: 2}}, slos: 99%<=1s}
  a: {model: m.onnx, arrivals: {constant: {rate_per_s: 3}}}
  b: {model: m.onnx, arrivals: {poisson: {rate_per_s: 2.5}}}
  c: {model: m.onnx, arrivals: {gamma: {rate_per_s: 2, cv: 3}}}
  d: {model: m.onnx, arrivals: {burst: {rate_per_s: 2, size: 3, spacing: poisson}}}
  e: {model: m.onnx, arrivals: {closed: {concurrency: 4, think_time_s: 0.5, think: exponential}}}
"""
EVEN = """
requests: 100
streams:
  one: {model: m.onnx, arrivals: {constant: {rate_per_s: 100}}, slos: p99=50ms}
"""
DEPLOYMENT = """
models:
  - model: m.onnx
    strategy: heft
    instances:
      - {count: 2, devices: [cpu]}
      - {devices: [cpu, dsp], strategy: single:cpu}
    routing: least_finish
    queue_policy: {max_queue_size: 64, default_timeout_us: 50000, timeout_action: delay}
    priority_levels: 3
    default_priority_level: 2
    dynamic_batching: {max_batch_size: 1, preferred_batch_size: [1], max_queue_delay_us: 200}
"""
SCALED = """
models:
  - model: m.onnx
    instances: [{count: 2, devices: [cpu]}]
    autoscaling: {min_replicas: 1, max_replicas: 2, target_ongoing_requests: 2, upscale_delay_s: 1}
"""
GRID = """
models: [m.onnx, {model: m.onnx, dims: {}}]
platforms: [box.yaml, cpu.yaml]
what_ifs: [{}, npu.speed x2]
precisions: [{}, {npu: float16}]
strategies: [single:cpu, heft]
workloads:
  - none
  - {name: even, arrivals: {constant: {rate_per_s: 1000}}, slos: p99=1ms, requests: 40}
"""
CATALOG = """
kinds:
  board: {platform: box.yaml, link: eth1, most: 2, price: {usd: 150, years: 3, of: 2024, source: a}}
  card: {device: npu.yaml, link: pcie3-x4, most: 2, price: {usd_per_hour: 0.5, of: 2024, source: a}}
hosts:
  server: {platform: cpu.yaml, slots: 2, price: {usd: 600, years: 3, of: 2024, source: assumed}}
"""
AFFINITY = """
schema: hetsim-affinity/1
pins: {first: cpu, head: dsp}
exclude:
  - {device: npu, ops: [Relu]}
  - {device: dsp, nodes: [pool, flat]}
priority: [npu, dsp, cpu]
default: cpu
"""
TRACE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,100,10
2023-11-16 18:17:04.0319600,200,20
"""


@dataclass(frozen=True)
class Role:
    """What a file is for: its name, texts that it may begin from, the calls that take it."""

    name: str
    originals: tuple[str, ...]
    calls: tuple[str, ...]


def _read(*names: str) -> tuple[str, ...]:
    return tuple((_DEVICES / name).read_text() for name in names)


def _box(*names: str) -> tuple[str, ...]:
    return tuple((_ROOT / "tests" / "cases" / "box" / name).read_text() for name in names)


def roles() -> tuple[Role, ...]:
    """All sorts of YAML files that verbs take."""
    load = "--workload w.yaml --platform box.yaml"
    simulate = "simulate m.onnx --platform box.yaml"
    deployed = "simulate --workload even.yaml --deployment d.yaml --platform box.yaml"
    recommend = "recommend --catalog catalog.yaml --requests 500"
    bought = "--workload even.yaml --depreciation 3y --tariff 0.2"
    return (
        Role(
            "npu.yaml",
            (*_box("npu.yaml", "dsp.yaml"), *_read("hailo-8l.yaml", "nvidia-l4.yaml")),
            (
                "inspect npu.yaml",
                "devices show npu.yaml",
                "devices show npu.yaml --json",
                "devices query npu.yaml m.onnx",
                "simulate m.onnx --platform npu.yaml",
                "partition m.onnx --platform box.yaml",
                "inspect --nodes m.onnx --platform npu.yaml",
                "compare m.onnx --platform box.yaml --strategy heft",
                "devices show npu.yaml --wide",
                "inspect --lint m.onnx --platform box.yaml",
            ),
        ),
        Role(
            "link.yaml",
            _read("links/pcie3-x4.yaml", "links/shared-rk3588.yaml"),
            ("inspect link.yaml", "devices show link.yaml"),
        ),
        Role(
            BOX,
            (
                *_box(BOX),
                *_read(
                    "platforms/laptop.yaml", "platforms/two-hosts.yaml", "platforms/rock-5b.yaml"
                ),
            ),
            (
                "inspect box.yaml",
                "devices show box.yaml",
                "simulate m.onnx --platform box.yaml",
                "compare m.onnx --platform box.yaml --strategy heft",
                f"{simulate} --contention none --requests 3 --interval 0.1ms",
                "simulate m.onnx --platform box.yaml --strategy chain-dp --json",
                "recommend --workload even.yaml --platform box.yaml",
                "simulate m.onnx --platform box.yaml --pessimistic",
                "run m.onnx --platform box.yaml --executor threads",
            ),
        ),
        Role(
            "w.yaml",
            (WORKLOAD, EVEN),
            (
                "inspect w.yaml",
                "inspect w.yaml --json",
                f"simulate {load}",
                f"simulate {load} --deployment d.yaml --json",
                f"recommend {load}",
                f"{recommend} --max-devices 2 --objective devices --workload w.yaml",
            ),
        ),
        Role(
            "d.yaml",
            (DEPLOYMENT, SCALED),
            (
                "inspect d.yaml",
                deployed,
                f"{deployed} --json --report out.html",
            ),
        ),
        Role(
            "grid.yaml",
            (GRID,),
            (
                "sweep grid.yaml --executor threads -o out",
                "sweep grid.yaml --executor threads -o out --json --front latency_s",
            ),
        ),
        Role(
            "catalog.yaml",
            (CATALOG, (_ROOT / "examples" / "catalog.yaml").read_text()),
            (
                f"{recommend} {bought} --max-devices 2",
                f"{recommend} {bought} --max-devices 1 --objective energy --certificate out.json",
            ),
        ),
        Role(
            "cluster.yaml",
            ((_ROOT / "cluster.yaml").read_text(),),
            ("cluster check cluster.yaml --platform box.yaml", "cluster check cluster.yaml"),
        ),
        Role(
            "pins.yaml",
            (AFFINITY,),
            (
                "simulate m.onnx --platform box.yaml --affinity pins.yaml",
                "partition m.onnx --platform box.yaml --affinity pins.yaml",
                "inspect --nodes m.onnx --platform box.yaml --strategy heft --affinity pins.yaml",
                "inspect --lint m.onnx --platform box.yaml --affinity pins.yaml",
            ),
        ),
    )


class YamlFiles:
    """Files of each role in turn; all that they name lies beside them."""

    def __init__(self, root: Path) -> None:
        self._roles = roles()
        self._trees = {
            text: yaml.safe_load(text) for role in self._roles for text in role.originals
        }
        self._root = root
        write_box(root)
        onnx.save(chain(), root / "m.onnx")
        for name, text in (
            ("w.yaml", EVEN),
            ("even.yaml", EVEN),
            ("d.yaml", DEPLOYMENT),
            ("catalog.yaml", CATALOG),
            ("two.csv", TRACE),
        ):
            (root / name).write_text(text)

    def __call__(self, rng: Random, folder: Path) -> list[list[str]]:
        """Write one file that is changed, and what goes with it."""
        for path in self._root.iterdir():
            shutil.copyfile(path, folder / path.name)
        role = rng.choice(self._roles)
        text = rng.choice(role.originals)
        (folder / role.name).write_bytes(self._changed(rng, text))
        return [call.split() for call in role.calls]

    def _changed(self, rng: Random, text: str) -> bytes:
        how = rng.random()
        if how < 0.35:
            return texts.changed(rng, text.encode())
        tree: Any = trees.mutated(rng, self._trees[text], donors=tuple(self._trees.values()))
        data = texts.encoded(texts.as_yaml(rng, tree) if how < 0.9 else texts.as_json(rng, tree))
        return texts.changed(rng, data, most=1) if rng.random() < 0.1 else data
