"""Frozen answers: what hetsim says today, kept as digests and key figures.

Two files stand beside this one. ``plans.json`` has, for each model of the zoo on each platform of
the catalog, the plan and timeline of every strategy and the groups of every merge method.
``verbs.json`` has what ``--json`` of each verb prints. A change that must keep all answers is held
by ``test_frozen.py``; one that is meant to change some writes the files anew::

    python tests/frozen/frozen_answers.py [--only TEXT]

Figures count to nine significant digits. Sentences do not count, so words may change freely: a text
with a space in it is left out of a digest.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from click.testing import CliRunner

import hetsim
from hetsim.cli.main import main

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLANS = HERE / "plans.json"
VERBS = HERE / "verbs.json"

MODELS = (
    *("alexnet", "bert_small", "densenet121", "gpt2_6layer", "inception_v1", "inception_v2"),
    *("mobilenet_v2", "resnet18", "resnet50", "shufflenet", "squeezenet", "vgg19", "vit_base"),
    "zfnet512",
)
PLATFORMS = (
    *("desktop", "dual-gpu", "edge-tpu", "gpu-server-8", "iq-9075", "jetson-agx-orin"),
    *("jetson-orin-nano", "jetson-orin-nx", "laptop", "pi-5-hailo-8l", "rb3-gen-2", "rock-5b"),
    *("snapdragon-laptop", "snapdragon-phone", "two-hosts", "workstation"),
)
DEAR_STRATEGIES = frozenset({"exact", "ideal-dp", "slice"})
"""Strategies that take up to 20 CPU seconds a plan: frozen on small models alone."""
SMALL_MODELS = frozenset({"zfnet512"})

_EXAMPLES = ROOT / "examples"
_PHOTOS = f"--workload {HERE}/questions/photos.yaml"
_TWO = f"--workload {HERE}/questions/two.yaml"
QUESTIONS = (
    "zoo list",
    "compare --strategies",
    "devices list",
    "devices show rockchip-rk3588-npu",
    "devices show rock-5b",
    "devices query rockchip-rk3588-npu zoo:bert_small",
    "inspect zoo:resnet50 --platform laptop",
    "inspect zoo:bert_small --platform rock-5b",
    "inspect --nodes zoo:inception_v1 --platform rock-5b",
    "partition zoo:bert_small --platform rock-5b --method all",
    "partition zoo:densenet121 --platform edge-tpu --method all",
    "partition zoo:vit_base --platform laptop --set min_nodes=4 --set fit_weights=true",
    "compare zoo:inception_v1 --platform rock-5b",
    "compare zoo:squeezenet --platform laptop --explain --sensitivities",
    "compare zoo:resnet50 --platform laptop --execute npu=int8,gpu=float16",
    "compare zoo:mobilenet_v2 --platform edge-tpu --execute tpu=int8",
    "compare zoo:resnet18 --platform dual-gpu --objective throughput",
    "compare zoo:resnet50 --platform laptop --what-if 'npu.speed x2' --without gpu",
    "inspect --lint zoo:inception_v1 --platform rock-5b",
    "inspect --lint zoo:bert_small --platform laptop",
    "simulate zoo:bert_small --platform rock-5b --strategy heft --requests 20",
    "simulate zoo:resnet50 --platform laptop --strategy pipeline --requests 8",
    "simulate zoo:resnet50 --platform laptop --rate 100 --slo p99=20ms",
    "simulate zoo:resnet50 --platform laptop --concurrency 4 --duration 2s --strategy pipeline",
    "simulate zoo:resnet50 --platform dual-gpu --strategy single --rate 300 --duration 10s"
    " --inject 'kill gpu.0 at 2s for 500ms'",
    "simulate zoo:resnet18 --platform dual-gpu --strategy single --rate 300 --slo p99=20ms"
    " --requests 20000 --survive 1 --availability 0.999 --available '*=0.99'",
    f"simulate --workload {_EXAMPLES}/workload.yaml --platform dual-gpu"
    f" --deployment {_EXAMPLES}/deployment.yaml",
    f"simulate {_TWO} --platform jetson-orin-nano",
    "simulate --max-rate zoo:resnet18 --platform laptop --slo p99=20ms --strategy single"
    " --requests 50000",
    "simulate --max-rate zoo:resnet18 --platform laptop --slo p99=20ms --strategy single:cpu"
    " --target-rate 22 --requests 50000",
    f"simulate --max-rate {_TWO} --platform jetson-orin-nano",
    f"simulate --max-rate {_PHOTOS} --platform dual-gpu",
    f"recommend {_PHOTOS} --catalog {_EXAMPLES}/catalog.yaml --tariff 0.3 --depreciation 3y",
    f"recommend {_PHOTOS} --catalog rock-5b,pi-5-hailo-8l --price rock-5b=150/3y"
    " --price pi-5-hailo-8l=160/3y --tariff 0.3",
    f"recommend {_TWO} --platform jetson-orin-nano",
    f"recommend {_TWO} --platform dual-gpu",
    f"sweep {_EXAMPLES}/grid.yaml --executor threads -o {{folder}}",
)
"""What is asked of each verb, without the option ``--json``."""

_VOLATILE = frozenset({"version", "hetsim", "seconds", "wall_s", "took_s", "path", "folder"})
"""Keys whose values differ between runs, machines or versions."""


def digest(record: object) -> str:
    """SHA-256 of a record's figures and names, as its first 12 hex digits."""
    return sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:12]


def rounded(value: Any) -> Any:
    """`value` with its floats to nine digits, without sentences and what differs between runs."""
    if isinstance(value, bool) or value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, str):
        return "" if " " in value else value
    if isinstance(value, Mapping):
        return {
            str(key): rounded(inner) for key, inner in value.items() if str(key) not in _VOLATILE
        }
    return [rounded(inner) for inner in value]


def figures(record: Any, depth: int = 3) -> Iterator[tuple[str, float | int]]:
    """Numbers of a record that stand at most `depth` keys deep, with their keys joined by dots."""
    if isinstance(record, Mapping):
        for key, inner in record.items():
            if isinstance(inner, float | int) and not isinstance(inner, bool):
                yield str(key), inner
            elif depth > 1:
                yield from ((f"{key}.{name}", value) for name, value in figures(inner, depth - 1))


def plans_of(model: str, platform: str) -> dict[str, list[Any]]:
    """Plans, timelines and partitions of a zoo model on a platform of the catalog.

    A strategy's entry is seconds of one request, number of groups, and a digest of plan and
    timeline; a merge method's the number of groups and their digest; of what cannot be planned it
    is the name of the error.
    """
    problem = hetsim.Problem.of(hetsim.load_model(f"zoo:{model}"), hetsim.load_platform(platform))
    answers: dict[str, list[Any]] = {}
    for entry in hetsim.strategies():
        if entry.name not in DEAR_STRATEGIES or model in SMALL_MODELS:
            answers[entry.name] = _or_error(lambda name=entry.name: _planned(problem, name))
    for method in hetsim.methods():
        answers[f"partition {method.name}"] = _or_error(
            lambda name=method.name: _partitioned(problem, name)
        )
    return answers


def _or_error(ask: Callable[[], list[Any]]) -> list[Any]:
    try:
        return ask()
    except hetsim.HetsimError as error:
        return [type(error).__name__]


def _planned(problem: hetsim.Problem, strategy: str) -> list[Any]:
    plan = hetsim.plan(problem, strategy)
    timeline = hetsim.simulate(plan)
    events = [
        [event.kind, event.name, rounded(event.start_s), rounded(event.end_s)]
        for event in timeline.events
    ]
    groups = [[group.device, list(group.nodes)] for group in plan.groups]
    latency_s = rounded(timeline.latency_s)
    return [latency_s, len(groups), digest([groups, list(plan.deal), latency_s, events])]


def _partitioned(problem: hetsim.Problem, method: str) -> list[Any]:
    groups = [
        [group.device, list(group.nodes)] for group in hetsim.partition(problem, method).groups
    ]
    return [len(groups), digest(groups)]


def answer_of(question: str) -> dict[str, Any]:
    """Exit code, digest and key figures of what a command prints with ``--json``."""
    with TemporaryDirectory() as folder:
        words = [*shlex.split(question.format(folder=folder)), "--json"]
        done = CliRunner().invoke(main, words)
        if not done.stdout:
            raise AssertionError(f"{shown(question)} printed no record: {done.stderr}")
        record = rounded(json.loads(shown(done.stdout.replace(folder, ""))))
    told = dict(figures(record)) if isinstance(record, dict) else {}
    return {"exit_code": done.exit_code, "digest": digest(record), "figures": told}


def shown(question: str) -> str:
    """A question, or an answer, without the paths of its files."""
    return question.replace(f"{_EXAMPLES}/", "").replace(f"{HERE}/questions/", "")


def kept(file: Path) -> dict[str, Any]:
    """Answers that a file keeps; none where it is not there."""
    return json.loads(file.read_text()) if file.exists() else {}


def _write(file: Path, answers: Mapping[str, Any]) -> None:
    lines = [f"{json.dumps(key)}: {json.dumps(answers[key])}" for key in sorted(answers)]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def freeze(only: str = "") -> None:
    """Write both files anew, or the answers alone whose question contains `only`."""
    verbs = kept(VERBS)
    for question in QUESTIONS:
        if only in shown(question):
            verbs[shown(question)] = answer_of(question)
            _write(VERBS, verbs)
    plans = kept(PLANS)
    for model in MODELS:
        for platform in PLATFORMS:
            if only in (key := f"{model} {platform}"):
                plans[key] = plans_of(model, platform)
        _write(PLANS, plans)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="freeze the questions alone that contain this")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    freeze(parser.parse_args().only)
