"""Every verb that prices takes measurements of networks, and its report says what they gave."""

from __future__ import annotations

import json
import math

import pytest

import hetsim
from cli_calls import call, ok, record_of, refused
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.problem.parts import Z80
from onnx_builders import save
from profile_builders import unit_model
from sweeps import sweep


@pytest.fixture
def words(tmp_path):
    """A model, a platform, and a measurement of the model on the cpu in a table."""
    path = save(unit_model(), tmp_path, "unit.onnx")
    (tmp_path / "l.csv").write_text("model,latency\nunit.onnx,0.1ms\n")
    return [path, "--platform", "laptop", "--measured", f"cpu={tmp_path / 'l.csv'}"]


VERBS = [
    ["compare"], ["simulate"], ["partition"], ["inspect", "--nodes"],
    ["run", "--executor", "threads"], ["simulate", "--rate", "10/s", "--requests", "20"],
]  # fmt: skip


@sweep("verb", quick=VERBS[2::3], full=VERBS, ids=" ".join)
def test_every_verb_takes_measurements(words, verb):
    plain = call(verb[0], *words[:3], *verb[1:], "--json")
    result = call(verb[0], *words, *verb[1:], "--json")
    assert result.exit_code == plain.exit_code == 0, result.stderr
    assert '"measured_here"' not in plain.stdout
    assert '"measured_here"' in result.stdout


def test_the_report_names_them(words):
    told = " ".join(call("simulate", *words).stdout.split())
    assert "measured by you cpu: 1 network, factor" in told
    far = call("simulate", *words[:3], "--measured", f"cpu={words[0]}:9s")
    assert "times the predicted time: check its unit and batch size" in far.stderr


def test_a_saved_plan_has_its_measurements(words, tmp_path):
    out = tmp_path / "out"
    made = ok("simulate", *words, "--out", out, "--json")
    again = call("simulate", out / "plan.json", "--json")
    assert json.loads(again.stdout)["problem"] == json.loads(made.stdout)["problem"]
    refused(
        call("simulate", out / "plan.json", "--measured", "cpu=unit.onnx:4ms"),
        2,
        "--measured cannot go with a saved plan",
    )


def test_a_device_file_may_state_them(words, tmp_path):
    platform = tmp_path / "p.yaml"
    entry = "{model: unit.onnx, latency: LATENCY, precision: float32}"
    text = (
        "host: cpu\ndevices:\n  cpu: {device: intel-core-i7-1360p-cpu, overrides: "
        f"{{measurements: [{entry}]}}}}\nlinks: []\n"
    )
    platform.write_text(text.replace("LATENCY", "0.1ms"))
    model = hetsim.load_model(words[0])
    known = hetsim.load_platform(platform)
    problem = hetsim.Problem.of(model, known)
    given = hetsim.Problem.of(
        model,
        hetsim.load_platform("intel-core-i7-1360p-cpu"),
        measured={"cpu": f"{words[0]}:0.1ms:float32"},
    )
    assert problem.measured["cpu"].factor == given.measured["cpu"].factor
    assert (problem.seconds == given.seconds).all()
    plan = hetsim.plan(problem, "single:cpu")
    plan.save(tmp_path / "plan.json")
    assert hetsim.load_plan(tmp_path / "plan.json").problem.measured == problem.measured
    platform.write_text(text.replace("LATENCY", "0.2ms"))
    assert hetsim.load_platform(platform).sha256 != known.sha256
    platform.write_text(text.replace("LATENCY", "'0.2'"))
    wrong = call("inspect", platform)
    assert wrong.exit_code == 3
    assert "has no unit; write 0.2ms" in " ".join(wrong.stderr.split() + wrong.stdout.split())


def test_a_device_is_shown_with_the_measurements_of_its_file(words, tmp_path):
    device = tmp_path / "d.yaml"
    given = (catalog_folder() / "intel-core-i7-1360p-cpu.yaml").read_text(encoding="utf-8")
    device.write_text(given + "measurements:\n- {model: unit.onnx, latency: 0.1ms}\n")
    record = record_of("devices", "show", device)
    assert [one["seconds"] for one in record["measurements"]] == [0.1e-3]
    figures = record["figures"]
    [ratio] = figures["measured_here"]["measured_over_predicted"]
    bare = tmp_path / "bare.yaml"
    bare.write_text(given)
    before = record_of("devices", "show", bare)["figures"]
    assert figures["sd"] < before["sd"]
    assert "measured_here" not in before
    # Of another network it says less than all that it is off by.
    factor = figures["measured_here"]["factor"]
    assert min(1, ratio) < factor < max(1, ratio)
    told = " ".join(call("devices", "show", device).stdout.split())
    assert f"measured by you 1 network, factor {factor:.2f}" in told
    assert f"{ratio:.2f} dense peak" in told
    alone = hetsim.Problem.of(hetsim.load_model(words[0]), hetsim.load_platform(device))
    assert alone.evidence[0].measured_here.predicted_s == pytest.approx([0.1e-3 / ratio])


def test_figures_say_how_many_networks_sources_and_dies_they_rest_on():
    record = record_of("devices", "show", "nvidia-t4")
    told = " ".join(call("devices", "show", "nvidia-t4", "--wide").stdout.split())
    for figures in record["kernels"].values():
        own, family = figures["rests_on"]["device"], figures["rests_on"]["family"]
        assert own["networks"] <= family["networks"]
        assert own["sources"] <= family["sources"]
        assert own["dies"] == 1 <= family["dies"]
    evidence = hetsim.Problem.of(
        hetsim.load_model("zoo:squeezenet"), hetsim.load_platform("nvidia-t4")
    ).evidence[0]
    # One source's factor, and that of the user's machine.
    elsewhere = record["kernels"][evidence.precision]["rests_on"]["elsewhere"]
    assert evidence.sd > elsewhere > 0.2
    assert record["figures"]["floors"]["sources"] == elsewhere
    assert f"figures of one source: within {math.exp(Z80 * elsewhere):.2f}x" in told
