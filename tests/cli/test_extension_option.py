"""``--extension``: custom operators on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from cli_calls import Cli
from custom_op_builders import LIBRARY, bodies, user


def test_verbs_read_models_with_custom_ops(cli: Cli, tmp_path: Path) -> None:
    model, held = user(tmp_path), bodies(tmp_path)
    refused = cli("inspect", model)
    assert refused.exit_code == 3
    assert "unknown op 'NegPos'" in refused.output
    described = f"{LIBRARY}={held}"
    kind = "rockchip-rk3588-npu"
    asked = cli("devices", "query", kind, model, "--extension", described, "--json")
    assert asked.exit_code == 0
    assert "of a custom-op library (it takes none)" in asked.output
    taken = cli("devices", "query", kind, model, "--extension", held, "--json")
    assert "it takes none" not in taken.output
    out = tmp_path / "out"
    ran = cli(
        "run", model, "--extension", described, "--platform", "laptop", "--strategy", "hetero",
        "--executor", "threads", "--json", "--out", out,
    )  # fmt: skip
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["bitwise_equal"] is True
    words = ("run", out / "plan.json", "--executor", "threads", "--json")
    again = cli(*words, "--extension", described)
    assert json.loads(again.stdout)["outputs"] == json.loads(ran.stdout)["outputs"]
    for verb in (words, ("simulate", out / "plan.json"), ("compile", out / "plan.json", "-o", "x")):
        unnamed = cli(*verb)
        assert unnamed.exit_code == 3
        assert f"add --extension {described}" in unnamed.output.replace("\n", " ")


def test_an_extension_that_is_none(cli: Cli, tmp_path: Path) -> None:
    given = cli("inspect", "zoo:squeezenet", "--extension", tmp_path / "absent.onnx")
    assert given.exit_code == 2
    assert "no such file" in given.output
    assert "Traceback" not in given.output
