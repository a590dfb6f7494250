"""``--extension``: custom operators on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from cli_calls import call, ok, refused
from custom_op_builders import LIBRARY, bodies, user


def test_verbs_read_models_with_custom_ops(tmp_path: Path) -> None:
    model, held = user(tmp_path), bodies(tmp_path)
    refused(call("inspect", model), 3, "unknown op 'NegPos'")
    described = f"{LIBRARY}={held}"
    kind = "rockchip-rk3588-npu"
    asked = ok("devices", "query", kind, model, "--extension", described, "--json")
    assert "of a custom-op library (it takes none)" in asked.output
    taken = call("devices", "query", kind, model, "--extension", held, "--json")
    assert "it takes none" not in taken.output
    out = tmp_path / "out"
    ran = ok(
        "run", model, "--extension", described, "--platform", "laptop", "--strategy", "hetero",
        "--executor", "threads", "--json", "--out", out,
    )  # fmt: skip
    assert json.loads(ran.stdout)["bitwise_equal"] is True
    words = ("run", out / "plan.json", "--executor", "threads", "--json")
    again = call(*words, "--extension", described)
    assert json.loads(again.stdout)["outputs"] == json.loads(ran.stdout)["outputs"]
    for verb in (words, ("simulate", out / "plan.json"), ("compile", out / "plan.json", "-o", "x")):
        unnamed = call(*verb)
        assert unnamed.exit_code == 3
        assert f"add --extension {described}" in unnamed.output.replace("\n", " ")
