"""At 80 columns every table is whole: no line is longer, and nothing is cut off."""

from __future__ import annotations

import pytest

from cli_calls import Cli
from hetsim.hardware.catalog import device_names, platform_names
from sweeps import sweep

LISTINGS = (
    "zoo list",
    "devices list",
    "compare --strategies",
    "compare --strategies exact",
    "compare --strategies greedy",
    *(f"devices show {name}" for name in (*device_names(), *platform_names())),
)
ANSWERS = (
    "compare zoo:squeezenet --platform gpu-server-8 --strategy single",
    "compare zoo:squeezenet --platform gpu-server-8 --strategy single --objective throughput",
    "compare zoo:bert_small --platform rock-5b --strategy single --strategy hetero:npu,gpu,cpu",
    "compare zoo:squeezenet --platform laptop --strategy heft --explain",
    "partition zoo:squeezenet --platform laptop --method all",
    "partition zoo:bert_small --platform rock-5b",
    "inspect zoo:bert_small --platform gpu-server-8",
    "inspect zoo:densenet121 --platform rock-5b",
    "simulate zoo:squeezenet --platform gpu-server-8 --strategy heft --requests 20",
    "devices query google-edge-tpu zoo:bert_small",
    "inspect --nodes zoo:squeezenet --platform two-hosts --wide",
    "inspect --nodes zoo:inception_v1 --platform rock-5b --strategy heft --device npu",
    "inspect --lint zoo:squeezenet --platform laptop --wide",
)


@sweep("words", quick=[*LISTINGS[:3], *LISTINGS[3::24], *ANSWERS[::6]], full=[*LISTINGS, *ANSWERS])
def test_it_fits_80_columns(words: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = cli(*words.split())
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert "…" not in result.stdout
    assert max(map(len, lines)) <= 80


@sweep(
    "words",
    quick=["zoo list", "devices show gpu-server-8"],
    full=["zoo list", "devices list", "devices show gpu-server-8"],
)
def test_wide_has_what_was_left_out(words: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    brief, wide = cli(*words.split()).stdout, cli(*words.split(), "--wide").stdout
    assert "…" not in wide
    words_left = {word for word in brief.split() if "─" not in word and not word.endswith("-7")}
    assert words_left - {"gpu.0-7,", "each", "to"} <= set(wide.split())
    assert len(wide) > len(brief)
