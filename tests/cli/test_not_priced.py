"""Every verb names what is not priced; what branches hold is seen by inspect."""

from __future__ import annotations

import json

from onnx_builders import WIDE, if_model, save, texts_model


def test_every_verb_says_it(cli, tmp_path):
    path = save(texts_model(), tmp_path)
    words = ["--platform", "laptop"]
    for verb in (["simulate"], ["partition"], ["compare", "--strategy", "heft", "--explain"]):
        result = cli(verb[0], path, *words, *verb[1:])
        assert result.exit_code == 0, result.stderr
        assert "not priced" in result.stdout
        told = json.loads(cli(verb[0], path, *words, *verb[1:], "--json").stdout)
        assert list(told["problem"]["unpriced"]) == ["twice"]
    for asked in ("--nodes", "--lint"):
        assert cli("inspect", path, *words, asked).stdout.count("not priced ") == 1
    read = json.loads(cli("inspect", path, "--json").stdout)
    assert list(read["unpriced_ops"]) == ["StringConcat"]
    assert "StringConcat: it processes strings" in cli("inspect", path).stdout


def test_weights_of_branches_are_parameters(cli, tmp_path):
    read = json.loads(cli("inspect", save(if_model(), tmp_path), "--json").stdout)
    assert read["parameters"] == WIDE * (WIDE + WIDE // 2)
    assert read["weight_bytes"] == 4 * read["parameters"]
