"""``--execute``: as if a device ran the model in another precision, in every verb that prices."""

from __future__ import annotations

from pathlib import Path

import onnx

from cli_calls import PRICING_VERBS, call, ok, record_of, refused
from cost.test_quantized import quantized
from sweeps import sweep

AS_IF = ("--platform", "laptop", "--execute", "npu=int8,gpu=float16")
HEADER = "float16 on gpu, int8 on npu; transfers keep the model's own types"


@sweep("verb", quick=PRICING_VERBS[1::3], full=PRICING_VERBS, ids=" ".join)
def test_every_verb_that_prices_says_so(model: Path, verb: tuple[str, ...]) -> None:
    shown = ok(verb[0], model, *verb[1:], *AS_IF)
    assert HEADER in " ".join(shown.stdout.split())
    record = record_of(verb[0], model, *verb[1:], *AS_IF)
    assert record.get("problem", record)["execute"] == {"npu": "int8", "gpu": "float16"}
    plain = record_of(verb[0], model, *verb[1:], *AS_IF[:2])
    assert plain.get("problem", plain)["execute"] == {}
    assert "as if" not in call(verb[0], model, *verb[1:], *AS_IF[:2]).stdout


def test_an_emulation_says_so(model: Path) -> None:
    shown = call("run", model, *AS_IF, "--executor", "threads", "--emulate", "--time-scale", "100")
    assert HEADER in " ".join(shown.stdout.split())


def test_reports_name_it_by_device(model: Path) -> None:
    for verb in (("simulate",), ("compare", "--wide", "--strategy", "heft")):
        shown = call(verb[0], model, *verb[1:], *AS_IF).stdout
        assert "npu, as if int8" in shown
        assert "gpu, as if float16" in shown
        assert "cpu, as if" not in shown


def test_several_options_are_one(model: Path) -> None:
    one = call("simulate", model, *AS_IF, "--json").stdout
    apart = ("--platform", "laptop", "--execute", "npu=int8", "--execute", "gpu = float16")
    assert call("simulate", model, *apart, "--json").stdout == one


def test_a_run_says_that_it_computes_the_model_as_it_is(model: Path) -> None:
    words = ("run", model, *AS_IF, "--executor", "threads", "--strategy", "hetero:npu,cpu")
    shown = " ".join(call(*words).stdout.split())
    assert "only the times assume" in shown
    assert "bitwise equal to the whole model: yes" in shown
    rounded = " ".join(call(*words, "--precision", "device").stdout.split())
    assert "rounded as devices compute: npu computes float32 in int8" in rounded


def test_a_plan_keeps_it_and_takes_no_other(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert call("simulate", model, *AS_IF, "--out", out).exit_code == 0
    plan = out / "plan.json"
    assert HEADER in " ".join(call("simulate", plan).stdout.split())
    refused(
        call("simulate", plan, "--execute", "npu=int8"),
        2,
        "--execute cannot go with a saved plan, which sets it",
    )


def test_a_compiled_plan_computes_the_model_as_it_is(model: Path, tmp_path: Path) -> None:
    done = ok("compile", model, *AS_IF, "-o", tmp_path / "made")
    assert "computes in the types of the model" in done.stderr
    refused(
        call("run", tmp_path / "made", "--execute", "npu=int8"),
        2,
        "--execute belongs to 'hetsim run MODEL'",
    )


def test_a_quantized_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    onnx.save(quantized("convolutions", "qdq"), path)
    for words in (
        ("inspect", path, *AS_IF),
        ("simulate", path, *AS_IF),
        ("devices", "query", "nvidia-l4", path, "--execute", "nvidia-l4=int8"),
    ):
        refused(call(*words), 3, "the model is quantized already")


def test_a_device_is_asked_as_if(model: Path) -> None:
    query = ("devices", "query", "google-edge-tpu", model)
    assert record_of(*query)["execute"] is None
    assert "0 of 6 nodes" in call(*query).stdout
    as_int8 = ("--execute", "google-edge-tpu=int8")
    shown = call(*query, *as_int8)
    assert "google-edge-tpu, as if int8 (npu)" in shown.stdout
    assert "4 of 6 nodes: 4 alone" in shown.stdout
    assert record_of(*query, *as_int8)["execute"] == "int8"
    for given, says in (
        ("google-edge-tpu=float16", "it has no peak rate for float16"),
        ("npu=int8", "the query is of another device; give --execute google-edge-tpu=int8"),
    ):
        refused(call(*query, "--execute", given), 2, says)


def test_a_platform_says_it_where_it_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "box.yaml"
    path.write_text(
        "host: cpu\ndevices:\n  cpu: rockchip-rk3588-cpu\n"
        "  tpu: {device: google-edge-tpu, execute: int8}\n"
        "links:\n  - {between: [cpu, tpu], link: usb3-gen1}\n"
    )
    assert "int8 on tpu" in call("devices", "show", path).stdout
    assert record_of("devices", "show", path)["execute"] == {"tpu": "int8"}
