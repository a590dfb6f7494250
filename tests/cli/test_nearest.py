"""A name or a choice that does not exist is told with the nearest that does, before any work."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from cli_calls import call
from sweeps import sweep

MISTAKES = (
    ("compar", "compare"),
    ("devices sho", "show"),
    ("zoo lst", "list"),
    ("compare --platfrom laptop", "--platform"),
    ("compare zoo:squeezenet --platform latop", "laptop"),
    ("compare zoo:squeezenett --platform laptop", "squeezenet"),
    ("compare squeezenet --platform laptop", "zoo:squeezenet"),
    ("compare x.onnx --platform laptop --strategy hfet", "heft"),
    ("compare x.onnx --platform laptop --set max_device=2", "max_devices"),
    ("compare x.onnx --platform laptop --objective latncy", "latency"),
    ("compare x.onnx --platform laptop --contention fifoo", "fifo"),
    ("compare x.onnx --platform laptop --canonical basicc", "basic"),
    ("compare x.onnx --platform laptop --cost fited", "fitted"),
    ("compare x.onnx --platform laptop --execute gpuu=int8", "gpu"),
    ("compare x.onnx --platform laptop --execute gpu=int7", "int8"),
    ("compare x.onnx --platform laptop --what-if 'gpuu.speed x2'", "gpu"),
    ("compare x.onnx --platform laptop --what-if 'gpu.spede x2'", "speed"),
    ("compare x.onnx --platform laptop --without gpuu", "gpu"),
    ("compare x.onnx --platform laptop --affinity a.yaml", "pins"),
    ("partition x.onnx --platform laptop --method compct", "compact"),
    ("partition x.onnx --platform laptop --set min_node=2", "min_nodes"),
    ("simulate x.onnx --platform laptop --rate 3 --arrivals poison", "poisson"),
    ("simulate x.onnx --platform laptop --rate 3 --loading residnt", "resident"),
    ("simulate --platform laptop --workload w.yaml", "arrivals"),
    ("devices show latop", "laptop"),
    ("devices query rockchip-rk3588-npuu x.onnx", "rockchip-rk3588-npu"),
    ("inspect --schema devise", "device"),
    ("compare --strategies hfet", "heft"),
    ("sweep g.yaml -o out", "platforms"),
    ("sweep h.yaml -o out --executor threads --front p99_ss", "p99_s"),
    ("devices calibrate cpuu", "cpu"),
    ("recommend --workload v.yaml --catalog rock-5bb", "rock-5b"),
    ("recommend --workload v.yaml --catalog rock-5b --objective costs", "cost"),
    ("recommend --workload v.yaml --platform laptopp", "laptop"),
    ("--completion bsh", "bash"),
)


@sweep("words, meant", quick=MISTAKES[::4], full=MISTAKES)
def test_the_nearest_is_named(
    words: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stream = "requests: 5\nstreams: {a: {model: x.onnx, %s: {constant: {rate_per_s: 5}}}}\n"
    Path("w.yaml").write_text(stream % "arivals")
    Path("v.yaml").write_text(stream % "arrivals")
    Path("g.yaml").write_text("models: [zoo:squeezenet]\nplatfroms: [laptop]\n")
    Path("h.yaml").write_text("models: [zoo:squeezenet]\nplatforms: [laptop]\nstrategies: [heft]\n")
    Path("a.yaml").write_text("pinss: {conv1: npu}\n")
    result = call(*shlex.split(words))
    assert result.exit_code in (2, 3)
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert "Traceback" not in line
    assert f"id you mean '{meant}'?" in line, line
