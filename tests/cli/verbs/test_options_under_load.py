"""Options of ``hetsim simulate`` where requests come at a rate: each is kept to, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from cli_calls import call, record_of, refused
from hetsim.cli.load import OF_DEPLOYMENT, OF_FILE
from hetsim.cli.verbs import recommend, run, simulate
from hetsim.errors import UsageError
from hetsim.simulation.service.resolution import ModelOptions
from onnx_builders import save
from profile_builders import trt_profile, unit_model, written

VERBS: dict[click.Command, dict[str, tuple[str, ...]]] = {
    simulate.simulate: simulate.FORMS, recommend.recommend: recommend.FORMS, run.run: run.FORMS
}  # fmt: skip
VALUES = {
    "arrivals": "poisson", "slos": "p99=5ms", "dims": "batch=2", "shapes": "x=2,8", "mtbf": "2h",
    "failures": "kill npu at 1ms", "mttr": "5min", "duration_s": "3s", "think_s": "3ms",
    "interval_s": "3ms", "target_s": "3ms",
}  # fmt: skip


def answer(*words: object) -> dict[str, Any]:
    return record_of("simulate", *words, "--rate", 300, "--requests", 100)


def took(found: dict[str, Any]) -> list[list[float]]:
    seconds: list[list[float]] = found["served"][0]["instances"][0]["seconds"]
    return seconds


def test_tables_of_forms_and_files_name_options() -> None:
    known: set[str] = set()
    for verb, forms in VERBS.items():
        names = {str(one.name) for one in verb.params}
        assert set(forms) <= names
        assert all(forms.values())
        known |= names
    assert set(OF_FILE) | set(OF_DEPLOYMENT) <= known


@pytest.mark.parametrize(
    "name", [name for name, forms in simulate.FORMS.items() if simulate.LOAD not in forms]
)
def test_an_option_of_another_form_is_refused_with_what_to_do(
    name: str, model: Path, platform: Path
) -> None:
    option = next(one for one in simulate.simulate.params if one.name == name)
    words = [max(option.opts, key=len), *([] if name == "sustained" else [VALUES.get(name, 3)])]
    refused(
        call("simulate", model, "--platform", platform, "--rate", 3, *words),
        2,
        f"{words[0]} belongs to 'hetsim simulate MODEL', not to",
        simulate.FIXES.get(name, f"leave {words[0]} out"),
    )


@pytest.mark.parametrize("name", OF_FILE)
def test_what_a_file_says_is_refused_with_where_to_write_it(
    name: str, model: Path, platform: Path, tmp_path: Path
) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 8), np.float32))
    (tmp_path / "w.yaml").write_text(
        "requests: 5\nstreams: {a: {model: tiny.onnx, arrivals: {poisson: {rate_per_s: 5}}}}\n"
    )
    option = next(one for one in simulate.simulate.params if one.name == name)
    word, value = max(option.opts, key=len), VALUES.get(name, 3)
    given = (word, tmp_path / "x.npz" if name == "inputs" else value)
    refused(
        call("simulate", "--workload", tmp_path / "w.yaml", "--platform", platform, *given),
        2,
        f"{word} cannot go with --workload",
        OF_FILE[name],
    )


def test_whole_shapes_and_inputs(dynamic_model: Path, platform: Path, tmp_path: Path) -> None:
    words = (dynamic_model, "--platform", platform, "--strategy", "single:cpu")
    np.savez(tmp_path / "x.npz", x=np.zeros((64, 8), np.float32))
    alone, dim, shape, inputs = (
        answer(*words, *more)
        for more in (
            (),
            ("--dim", "batch=64"),
            ("--shape", "x=64,8"),
            ("--input", tmp_path / "x.npz"),
        )
    )
    assert took(dim) == took(shape) == took(inputs) > took(alone)
    assert dim["streams"] == shape["streams"]
    for more in (("--shape", "x=64,8"), ("--input", tmp_path / "x.npz")):
        refused(
            call("simulate", *words, *more, "--rate", 3, "--batching", 4),
            3,
            "cannot run batches of 1, 2, 4: its full shapes are given",
        )
    assert call("simulate", *words, "--shape", "x=64,8", "--out", tmp_path / "made").exit_code == 0
    saved = answer(tmp_path / "made" / "plan.json")
    assert saved["streams"] == shape["streams"]


def test_affinity(dynamic_model: Path, platform: Path, tmp_path: Path) -> None:
    (tmp_path / "wish.yaml").write_text("pins: {first: npu}\n")
    words = (dynamic_model, "--platform", platform, "--affinity", tmp_path / "wish.yaml")
    found = answer(*words, "--batching", 4)
    assert found["served"][0]["instances"][0]["devices"] == ["cpu", "npu"]
    result = call("simulate", *words, "--rate", 3, "--set", "pins=second=npu")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    (tmp_path / "wish.yaml").write_text("pins: {frist: npu}\n")
    refused(call("simulate", *words, "--rate", 3), 3, "wish.yaml:1", "first")


def test_what_is_noted_of_every_batch_size_is_told_once(
    dynamic_model: Path, platform: Path, tmp_path: Path
) -> None:
    (tmp_path / "wish.yaml").write_text("pins: {first: npu}\ndefault: cpu\n")
    result = call(
        "simulate", dynamic_model, "--platform", platform, "--rate", 300, "--requests", 9,
        "--affinity", tmp_path / "wish.yaml", "--batching", 4,
    )  # fmt: skip
    assert (result.exit_code, result.stderr.count("\n")) == (0, 1)
    assert "'default' orders the devices" in result.stderr


def test_execute_and_pessimistic(model: Path, platform: Path) -> None:
    words = (model, "--platform", platform, "--strategy", "single:cpu")
    plain = answer(*words)
    assert took(answer(*words, "--execute", "cpu=int8")) != took(plain)
    assert took(answer(*words, "--pessimistic")) > took(plain)


def test_prices_of_a_saved_plan_are_those_it_was_made_with(platform: Path, tmp_path: Path) -> None:
    path = save(unit_model(), tmp_path, "unit.onnx")
    layers = {"conv1 + relu1": 0.5, "conv2 + relu2 + add": 0.7, "pool": 0.1}
    profile = written(tmp_path, trt_profile(layers), "npu.json")
    words = (path, "--platform", platform, "--strategy", "single:npu")
    for at, more in enumerate((("--profile", f"npu={profile}"), ("--execute", "npu=int8"))):
        made = tmp_path / f"made{at}"
        found = answer(*words, *more)
        assert took(found) != took(answer(*words))
        assert call("simulate", *words, *more, "--out", made).exit_code == 0
        again = answer(made / "plan.json")
        assert again["streams"] == found["streams"]
        assert again["problem"]["profiles"] == found["problem"]["profiles"]
    refused(
        call("simulate", *words, "--profile", f"npu={profile}", "--rate", 3, "--batching", 4),
        2,
        "a profile was given for 3 shapes",
    )


def test_options_of_an_instance_s_strategy(model: Path, platform: Path, tmp_path: Path) -> None:
    (tmp_path / "d.yaml").write_text(
        "models:\n  - model: tiny.onnx\n    strategy: heft\n"
        "    instances: [{count: 1}, {count: 1, strategy: multi}]\n"
    )
    words = (model, "--platform", platform, "--deployment", tmp_path / "d.yaml", "--rate", 3)
    refused(
        call("simulate", *words, "--set", "no_such=3"), 2, "'heft', 'multi' has no option 'no_such'"
    )


def test_constraints_hold_for_strategies_without_such_options(
    model: Path, platform: Path, tmp_path: Path
) -> None:
    words = ("simulate", "--max-rate", model, "--platform", platform, "--slo", "p90=1s")
    found = record_of(*words, "--requests", 2_000, "--set", "max_devices=1")
    assert [(one["name"], one["served"]) for one in found["rows"]] == [
        ("single", ["1 x single:cpu on cpu"]),
        ("heft", ["1 x heft on cpu"]),
    ]
    (tmp_path / "w.yaml").write_text(
        f"requests: 500\nstreams: {{all: {{model: {model}, slos: [p90=1s], "
        "arrivals: {poisson: {rate_per_s: 9}}}}\n"
    )
    words = ("recommend", "--workload", tmp_path / "w.yaml", "--platform", platform)
    result = call(*words, "--strategy", "local-search", "--set", "moves=5")
    assert result.exit_code in (0, 6), result.stderr
    with pytest.raises(UsageError, match="no strategy has an option 'movs'; did you mean 'moves'"):
        ModelOptions(options={"movs": 5})


def test_out(model: Path, platform: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = (model, "--platform", platform, "--out", out)
    found = answer(*words)
    assert sorted(path.name for path in out.iterdir()) == [
        "manifest.json",
        "result.json",
        "trace.json",
    ]
    assert json.loads((out / "result.json").read_text()) == found
    refused(call("simulate", *words, "--rate", 3), 2, "it exists and is not empty")
    (tmp_path / "w.yaml").write_text(
        "requests: 5\nstreams: {a: {model: tiny.onnx, arrivals: {poisson: {rate_per_s: 5}}}}\n"
    )
    workload = ("--workload", tmp_path / "w.yaml", "--platform", platform)
    assert call("simulate", *workload, "--out", out, "--force").exit_code == 0
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["files"]["workload"]["source"] == str(tmp_path / "w.yaml")
    assert len(manifest["files"]["workload"]["sha256"]) == 64
