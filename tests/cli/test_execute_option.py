"""``--execute``: as if a device ran the model in another precision, in every verb that prices."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from cli_calls import PRICING_VERBS, Cli, told
from cost.test_quantized import quantized
from sweeps import sweep

AS_IF = ("--platform", "laptop", "--execute", "npu=int8,gpu=float16")
HEADER = "float16 on gpu, int8 on npu; transfers keep the model's own types"


@sweep("verb", quick=PRICING_VERBS[1::3], full=PRICING_VERBS, ids=" ".join)
def test_every_verb_that_prices_says_so(cli: Cli, model: Path, verb: tuple[str, ...]) -> None:
    shown = cli(verb[0], model, *verb[1:], *AS_IF)
    assert shown.exit_code == 0, shown.stderr
    assert HEADER in " ".join(shown.stdout.split())
    record = told(cli(verb[0], model, *verb[1:], *AS_IF, "--json"))
    assert record.get("problem", record)["execute"] == {"npu": "int8", "gpu": "float16"}
    plain = told(cli(verb[0], model, *verb[1:], *AS_IF[:2], "--json"))
    assert plain.get("problem", plain)["execute"] == {}
    assert "as if" not in cli(verb[0], model, *verb[1:], *AS_IF[:2]).stdout


def test_an_emulation_says_so(cli: Cli, model: Path) -> None:
    shown = cli("run", model, *AS_IF, "--executor", "threads", "--emulate", "--time-scale", "100")
    assert HEADER in " ".join(shown.stdout.split())


def test_reports_name_it_by_device(cli: Cli, model: Path) -> None:
    for verb in (("simulate",), ("compare", "--wide", "--strategy", "heft")):
        shown = cli(verb[0], model, *verb[1:], *AS_IF).stdout
        assert "npu, as if int8" in shown
        assert "gpu, as if float16" in shown
        assert "cpu, as if" not in shown


def test_several_options_are_one(cli: Cli, model: Path) -> None:
    one = cli("simulate", model, *AS_IF, "--json").stdout
    apart = ("--platform", "laptop", "--execute", "npu=int8", "--execute", "gpu = float16")
    assert cli("simulate", model, *apart, "--json").stdout == one


def test_a_run_says_that_it_computes_the_model_as_it_is(cli: Cli, model: Path) -> None:
    words = ("run", model, *AS_IF, "--executor", "threads", "--strategy", "hetero:npu,cpu")
    shown = " ".join(cli(*words).stdout.split())
    assert "only the times assume" in shown
    assert "bitwise equal to the whole model: yes" in shown
    rounded = " ".join(cli(*words, "--precision", "device").stdout.split())
    assert "rounded as devices compute: npu computes float32 in int8" in rounded


def test_a_plan_keeps_it_and_takes_no_other(cli: Cli, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert cli("simulate", model, *AS_IF, "--out", out).exit_code == 0
    plan = out / "plan.json"
    assert HEADER in " ".join(cli("simulate", plan).stdout.split())
    refused = cli("simulate", plan, "--execute", "npu=int8")
    assert refused.exit_code == 2
    assert "--execute cannot go with a saved plan, which sets it" in refused.stderr


def test_a_compiled_plan_computes_the_model_as_it_is(cli: Cli, model: Path, tmp_path: Path) -> None:
    done = cli("compile", model, *AS_IF, "-o", tmp_path / "made")
    assert done.exit_code == 0, done.stderr
    assert "computes in the types of the model" in done.stderr
    refused = cli("run", tmp_path / "made", "--execute", "npu=int8")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--execute belongs to 'hetsim run MODEL'" in refused.stderr


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("npu", "models cannot be executed in 'npu'"),
        ("npu=", "is not DEVICE=PRECISION"),
        ("npu=int8,", "'' is not DEVICE=PRECISION"),
        ("npu=int8,npu=float16", "'npu' is given twice"),
        (
            "nqu=int8",
            "no device 'nqu' on platform 'laptop' to execute in int8; did you mean 'npu'?",
        ),
        ("npu=half", "models cannot be executed in 'half'"),
        (
            "npu=bfloat16",
            "it has no peak rate for bfloat16 (intel-core-ultra-155h-npu has float16, int8)",
        ),
    ],
)
def test_a_wrong_value_is_told_before_the_model_is_read(cli: Cli, given: str, says: str) -> None:
    for verb in ("simulate", "inspect"):
        result = cli(verb, "none.onnx", "--platform", "laptop", "--execute", given)
        assert (result.exit_code, result.stdout) == (2, "")
        assert says in result.stderr
        assert result.stderr.count("\n") == 1


def test_devices_of_no_platform_are_refused(cli: Cli, model: Path) -> None:
    result = cli("inspect", model, "--execute", "npu=int8")
    assert result.exit_code == 2
    assert "--execute needs a platform; give --platform, too" in result.stderr


def test_a_quantized_model_is_refused(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    onnx.save(quantized("convolutions", "qdq"), path)
    for words in (
        ("inspect", path, *AS_IF),
        ("simulate", path, *AS_IF),
        ("devices", "query", "nvidia-l4", path, "--execute", "nvidia-l4=int8"),
    ):
        result = cli(*words)
        assert result.exit_code == 3
        assert "the model is quantized already" in result.stderr


def test_a_device_is_asked_as_if(cli: Cli, model: Path) -> None:
    query = ("devices", "query", "google-edge-tpu", model)
    assert told(cli(*query, "--json"))["execute"] is None
    assert "0 of 6 nodes" in cli(*query).stdout
    as_int8 = ("--execute", "google-edge-tpu=int8")
    shown = cli(*query, *as_int8)
    assert "google-edge-tpu, as if int8 (npu)" in shown.stdout
    assert "4 of 6 nodes: 4 alone" in shown.stdout
    assert told(cli(*query, *as_int8, "--json"))["execute"] == "int8"
    for given, says in (
        ("google-edge-tpu=float16", "it has no peak rate for float16"),
        ("npu=int8", "the query is of another device; give --execute google-edge-tpu=int8"),
    ):
        refused = cli(*query, "--execute", given)
        assert refused.exit_code == 2
        assert says in refused.stderr


def test_a_platform_says_it_where_it_is_shown(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "box.yaml"
    path.write_text(
        "host: cpu\ndevices:\n  cpu: rockchip-rk3588-cpu\n"
        "  tpu: {device: google-edge-tpu, execute: int8}\n"
        "links:\n  - {between: [cpu, tpu], link: usb3-gen1}\n"
    )
    assert "int8 on tpu" in cli("devices", "show", path).stdout
    assert told(cli("devices", "show", path, "--json"))["execute"] == {"tpu": "int8"}
