"""Every verb names what is not priced; what branches hold is seen by inspect."""

from __future__ import annotations

from cli_calls import call, ok, record_of
from onnx_builders import WIDE, if_model, save, texts_model


def test_every_verb_says_it(tmp_path):
    path = save(texts_model(), tmp_path)
    words = ["--platform", "laptop"]
    for verb in (["simulate"], ["partition"], ["compare", "--strategy", "heft", "--explain"]):
        result = ok(verb[0], path, *words, *verb[1:])
        assert "not priced" in result.stdout
        told = record_of(verb[0], path, *words, *verb[1:])
        assert list(told["problem"]["unpriced"]) == ["twice"]
    for asked in ("--nodes", "--lint"):
        assert call("inspect", path, *words, asked).stdout.count("not priced ") == 1
    read = record_of("inspect", path)
    assert list(read["unpriced_ops"]) == ["StringConcat"]
    assert "StringConcat: it processes strings" in call("inspect", path).stdout


def test_weights_of_branches_are_parameters(tmp_path):
    read = record_of("inspect", save(if_model(), tmp_path))
    assert read["parameters"] == WIDE * (WIDE + WIDE // 2)
    assert read["weight_bytes"] == 4 * read["parameters"]
