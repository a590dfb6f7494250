"""Files with hostile names, of models whose nodes and streams are called so, through the verbs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml

from browsing import Open
from cli_calls import call
from hostile import HOSTILE, IN_FILES, check_in_a_browser, shown_safely, strings
from onnx_builders import make_model, op, value
from platforms import CPU_AND_NPU

SAYABLE = tuple(text for text in HOSTILE if "\ud800" not in text)


def model() -> onnx.ModelProto:
    """A chain of products whose nodes and tensors have every text for a name."""
    rng = np.random.default_rng(0)
    nodes, last = [], "x"
    for place, text in enumerate(SAYABLE):
        kind = "Relu" if place % 3 == 2 else "MatMul"
        made = op(kind, "x" if kind == "Relu" else "x w", "y", f"{text} {place}")
        made.input[0], made.output[0] = last, f"{text} out {place}"
        last = made.output[0]
        nodes.append(made)
    nodes.append(op("Relu", "x", "y", "last"))
    nodes[-1].input[0] = last
    weights = {"w": rng.standard_normal((16, 16)).astype(np.float32)}
    return make_model(nodes, [value("x", ("batch", 16))], [value("y", ("batch", 16))], weights)


@pytest.mark.sweep
@pytest.mark.parametrize("text", IN_FILES)
def test_verbs_show_them_as_text(text: str, tmp_path: Path, opened: Open) -> None:
    name = text.replace("/", "\N{DIVISION SLASH}")
    folder = tmp_path / name
    folder.mkdir()
    source, platform = folder / f"{name}.onnx", folder / f"{name}.yaml"
    onnx.save(model(), source)
    platform.write_text(CPU_AND_NPU)
    stream = {
        "model": str(source),
        "arrivals": {"poisson": {"rate_per_s": 500}},
        "slos": ["p90=50ms"],
    }
    load = folder / "load.yaml"
    load.write_text(yaml.safe_dump({"seed": 1, "requests": 300, "streams": {text: stream}}))
    grid = folder / "grid.yaml"
    asked = {"models": [str(source)], "platforms": [str(platform)], "strategies": ["heft"]}
    grid.write_text(yaml.safe_dump(asked))
    dims = ("--dim", "batch=1")
    on = ("--platform", platform)
    out, pages = folder / "out", folder / "pages"
    pages.mkdir()
    said = [
        call("inspect", source, *on, *dims),
        call("nodes", source, *on, *dims),
        call("partition", source, *on, *dims),
        call("compare", source, *on, *dims, "--report", pages / "compare.html", "--trace",
             folder / "trace.json"),
        call("simulate", source, *on, *dims, "--strategy", "heft", "--out", out, "--report",
             pages / "simulate.html"),
        call("run", source, *on, *dims, "--executor", "threads", "--report", pages / "run.html"),
        call("simulate", "--workload", load, *on, *dims, "--report", pages / "load.html"),
        call("capacity", "--workload", load, *on, *dims, "--report", pages / "capacity.html"),
        call("sweep", grid, "-o", folder / "swept", "--executor", "threads", "--report",
             pages / "sweep.html"),
        call("report", out, "-o", pages / "out.html"),
        call("report", pages / "compare.html", out, "-o", pages / "index.html"),
        call("report", pages / "simulate.html", out, "-o", pages / "difference.html"),
    ]  # fmt: skip
    for result in said:
        assert result.exit_code in (0, 2, 5, 6), result.stderr
        assert shown_safely(result.stdout) == ""
        assert shown_safely(result.stderr) == ""
        assert "Traceback" not in result.stderr
    assert sum(result.exit_code == 0 for result in said) >= len(said) - 3, [
        result.stderr for result in said if result.exit_code
    ]
    trace = json.loads((folder / "trace.json").read_text())
    assert "".join(map(shown_safely, strings(trace))) == ""
    for page in sorted(pages.iterdir()):
        check_in_a_browser(page, opened)
