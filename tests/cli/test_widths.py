"""At 80 columns every table is whole: no line is longer, and nothing is cut off."""

from __future__ import annotations

import shlex

import pytest

from cli_calls import call, ok
from hetsim.hardware.catalog import device_names, platform_names
from sweeps import sweep

LISTINGS = (
    "zoo list",
    "devices list",
    "compare --strategies",
    "compare --strategies exact",
    "compare --strategies greedy",
    "devices calibrate",
    *(f"devices show {name}" for name in (*device_names(), *platform_names())),
)
LOAD = "simulate zoo:squeezenet --platform laptop --rate 100 --slo p99=20ms --requests 2000"
ANSWERS = (
    "compare zoo:squeezenet --platform gpu-server-8 --strategy single",
    "compare zoo:squeezenet --platform gpu-server-8 --strategy single --objective throughput",
    "compare zoo:bert_small --platform rock-5b --strategy single --strategy hetero:npu,gpu,cpu",
    "compare zoo:squeezenet --platform laptop --strategy heft --explain",
    "compare zoo:squeezenet --platform laptop --strategy heft --what-if 'npu.speed x2'",
    "compare zoo:squeezenet --platform laptop --strategy heft --sensitivities",
    "partition zoo:squeezenet --platform laptop --method all",
    "partition zoo:bert_small --platform rock-5b",
    "inspect zoo:bert_small --platform gpu-server-8",
    "inspect zoo:densenet121 --platform rock-5b",
    "simulate zoo:squeezenet --platform gpu-server-8 --strategy heft --requests 20",
    "simulate zoo:squeezenet --platform laptop --requests 20 --inject 'kill npu at 1ms for 2ms'",
    LOAD,
    f"{LOAD} --loading on_demand --batching 8:500us --instances 2",
    f"{LOAD} --inject 'kill npu at 2s for 500ms'",
    f"{LOAD} --what-if 'npu.speed x2'",
    "simulate --max-rate zoo:squeezenet --platform laptop --slo p99=20ms --strategy single "
    "--requests 5000",
    "run zoo:squeezenet --platform laptop --executor threads",
    "devices query google-edge-tpu zoo:bert_small",
    "inspect --nodes zoo:squeezenet --platform two-hosts --wide",
    "inspect --nodes zoo:inception_v1 --platform rock-5b --strategy heft --device npu --wide",
    "inspect --lint zoo:inception_v1 --platform rock-5b --wide",
    "inspect --lint zoo:inception_v1 --platform rockchip-rk3588-npu",
)
"""Of each verb; those of README and of the greeting have tests of their own."""


@sweep("words", quick=[*LISTINGS[:3], *LISTINGS[3::24], *ANSWERS[::8]], full=[*LISTINGS, *ANSWERS])
def test_it_fits_80_columns(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = ok(*shlex.split(words))
    lines = result.stdout.splitlines()
    assert "…" not in result.stdout
    assert max(map(len, lines)) <= 80


@sweep(
    "words",
    quick=["zoo list", "devices show gpu-server-8"],
    full=["zoo list", "devices list", "devices show gpu-server-8"],
)
def test_wide_has_what_was_left_out(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    brief, wide = call(*words.split()).stdout, call(*words.split(), "--wide").stdout
    assert "…" not in wide
    words_left = {word for word in brief.split() if "─" not in word and not word.endswith("-7")}
    assert words_left - {"gpu.0-7,", "each", "to"} <= set(wide.split())
    assert len(wide) > len(brief)
