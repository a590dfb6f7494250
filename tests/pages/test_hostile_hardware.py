"""Hostile texts in every place where files of platforms, catalogs and workloads can have one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from click.testing import Result

from browsing import Open
from cli_calls import call
from hetsim.hardware.files.catalog_files import find
from hostile import HOSTILE, IN_FILES, Outline, check_in_a_browser, shown_safely, strings
from onnx_builders import make_model, op, value
from sweeps import sweep

SAYABLE = tuple(text for text in HOSTILE if "\ud800" not in text)
"""Those that a YAML file can have."""

LONG_NAME = "long" * 2500
"""A name that files may have: letters, and 10,000 of them."""

ERROR_MOST = 4000
"""Characters of what is said of a mistake."""

PAGES = ("lint", "nodes", "compare", "place", "simulate", "recommend")

Files = dict[str, Path]


def described(text: str, name: str) -> dict[str, Any]:
    """A device of the catalog, whatever is free text in it another."""
    read = yaml.safe_load(find("device", f"intel-core-ultra-155h-{name}")[0].read_text())
    return {**_told(read, text), "price": {"usd_per_hour": 0.1, "of": 2024, "source": text}}


def _told(given: Any, text: str) -> Any:
    if isinstance(given, dict):
        return {
            key: text if key in ("source", "full_name") else _told(inner, text)
            for key, inner in given.items()
        }
    return [_told(inner, text) for inner in given] if isinstance(given, list) else given


def model(text: str) -> onnx.ModelProto:
    """A chain of ops whose nodes and tensors are called by the text."""
    weights = {"w": np.eye(16, dtype=np.float32)}
    nodes = [op("MatMul", "x w", "a", text), op("Relu", "x", "y"), op("MatMul", "x w", "y", "end")]
    nodes[0].output[0] = nodes[1].input[0] = f"{text} a"
    nodes[1].output[0] = nodes[2].input[0] = f"{text} b"
    return make_model(nodes, [value("x", ("batch", 16))], [value("y", ("batch", 16))], weights)


def written(folder: Path, text: str, name: str, file: str) -> Files:
    """Files called `file`, whose free texts are `text`; in other files their names are `name`."""
    stem = file.replace("/", "\N{DIVISION SLASH}")
    deep = folder / stem
    deep.mkdir()
    for short in ("cpu", "npu"):
        (deep / f"{stem} {short}.yaml").write_text(yaml.safe_dump(described(text, short)))
    link = {"full_name": text, "latency_us": 5, "bandwidth_gbytes_s": 10, "efficiency": 0.9}
    figure = {"value": 10.0, "status": "estimate", "source": text}
    (deep / f"{stem} link.yaml").write_text(yaml.safe_dump({**link, "bandwidth_gbytes_s": figure}))
    names = {short: f"{name}{short}" for short in ("cpu", "npu")}
    devices = {names[short]: str(deep / f"{stem} {short}.yaml") for short in names}
    board = {
        "full_name": text,
        "host": names["cpu"],
        "devices": devices,
        "links": [
            {
                "between": list(names.values()),
                "link": str(deep / f"{stem} link.yaml"),
                "name": f"{name}wire",
            }
        ],
        "price": {"usd_per_hour": 0.05, "of": "2024-06", "source": text},
    }
    kinds = {
        f"{name}board": {"platform": str(deep / f"{stem}.yaml")},
        f"{name}npu": {
            "device": str(deep / f"{stem} npu.yaml"),
            "link": {"latency_us": 5, "bandwidth_gbytes_s": figure},
        },
    }
    price = {"usd_per_hour": 0.02, "of": "2024-06", "source": text}
    hosts = {f"{name}host": {"platform": str(deep / f"{stem}.yaml"), "slots": 2, "price": price}}
    streams = {}
    for short in ("a", "b"):
        onnx.save(model(text), deep / f"{stem} {short}.onnx")
        streams[f"{name}{short}"] = {
            "model": str(deep / f"{stem} {short}.onnx"),
            "dims": {"batch": 1},
            "arrivals": {"constant": {"rate_per_s": 50}},
            "slos": ["p90=50ms"],
        }
    one = {f"{name}a": streams[f"{name}a"]}
    found = {
        "platform": board,
        "catalog": {"kinds": kinds, "hosts": hosts},
        "two": {"requests": 200, "streams": streams},
        "one": {"requests": 200, "streams": one},
    }
    paths = {sort: deep / f"{stem} {sort}.yaml" for sort in found}
    paths["platform"] = deep / f"{stem}.yaml"
    for sort, data in found.items():
        paths[sort].write_text(yaml.safe_dump(data))
    return {**paths, "folder": deep, "model": deep / f"{stem} a.onnx"}


def answered(files: Files) -> Iterator[tuple[str, Result]]:
    """Every verb that these files are given to; each must answer."""
    folder, source = files["folder"], files["model"]
    on = ("--platform", files["platform"])
    dims = ("--dim", "batch=1")
    calls: dict[str, tuple[object, ...]] = {
        "lint": ("inspect", "--lint", source, *on, *dims),
        "nodes": ("inspect", "--nodes", source, *on, *dims, "--strategy", "heft"),
        "compare": ("compare", source, *on, *dims, "--trace", folder / "compare.json"),
        "place": ("recommend", "--workload", files["two"], *on, "--out", folder / "placed.yaml"),
        "simulate": ("simulate", "--workload", files["two"], *on, "--trace", folder / "load.json",
                     "--deployment", folder / "placed.yaml"),
        "recommend": ("recommend", "--workload", files["one"], "--catalog", files["catalog"],
                      "--max-devices", 2, "--certificate", folder / "why.json",
                      "--out", folder / "chosen"),
    }  # fmt: skip
    for verb, words in calls.items():
        yield verb, call(*words, "--report", folder / f"{verb}.html")
    yield "verify", call("recommend", "--verify", folder / "why.json")
    yield "validate", call("inspect", files["platform"])


def pages_of(files: Files) -> list[Path]:
    """The pages of all verbs; what they print and trace shows every text as one."""
    for verb, result in answered(files):
        assert result.exit_code in (0, 5), (verb, result.stderr)
        for printed in (result.stdout, result.stderr):
            assert shown_safely(printed) == "", verb
        assert "Traceback" not in result.stderr
    for trace in ("compare.json", "load.json"):
        read = json.loads((files["folder"] / trace).read_text())
        assert "".join(map(shown_safely, strings(read))) == ""
    return [files["folder"] / f"{verb}.html" for verb in PAGES]


@pytest.mark.sweep
def test_they_are_shown_as_text(tmp_path: Path) -> None:
    for page in pages_of(written(tmp_path, HOSTILE[3], "n", IN_FILES[-1])):
        outline = Outline(page.read_text("utf-8"))
        assert shown_safely("".join(outline.texts)) == ""
        assert outline.listeners == []


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("text", "name"), [*((text, "n") for text in SAYABLE), (HOSTILE[0], LONG_NAME)]
)
def test_they_are_text_in_a_browser(text: str, name: str, tmp_path: Path, opened: Open) -> None:
    for page in pages_of(written(tmp_path, text, name, text if text in IN_FILES else "plain")):
        check_in_a_browser(page, opened)


PLACES: dict[str, tuple[str, tuple[str, ...]]] = {
    "a platform's name": ("platform", ("name",)),
    "its host": ("platform", ("host",)),
    "a device's file": ("platform", ("devices", "ncpu")),
    "an end of a link": ("platform", ("links", "0", "between", "0")),
    "a link's file": ("platform", ("links", "0", "link")),
    "a link's name": ("platform", ("links", "0", "name")),
    "a bus": ("platform", ("links", "0", "bus")),
    "a key of a platform": ("platform", ("#",)),
    "a device's name": ("platform", ("devices", "#")),
    "a kind's name": ("catalog", ("kinds", "#")),
    "a kind's platform": ("catalog", ("kinds", "nboard", "platform")),
    "a kind's link": ("catalog", ("kinds", "nnpu", "link")),
    "a host's platform": ("catalog", ("hosts", "nhost", "platform")),
    "a key of a catalog": ("catalog", ("#",)),
    "a stream's name": ("one", ("streams", "#")),
    "a stream's model": ("one", ("streams", "na", "model")),
    "a dimension": ("one", ("streams", "na", "dims", "#")),
    "a kind of arrivals": ("one", ("streams", "na", "arrivals", "#")),
    "an objective": ("one", ("streams", "na", "slos")),
    "a key of a workload": ("one", ("#",)),
}
"""Which file, and where in it a text is; ``#`` is a key."""


def put(data: Any, at: tuple[str, ...], text: str) -> None:
    """Write a text there."""
    for part in at[:-1]:
        data = data[int(part)] if isinstance(data, list) else data[part]
    if at[-1] == "#":
        first = next(iter(data.values()))
        data[text] = first
    elif isinstance(data, list):
        data[int(at[-1])] = text
    else:
        data[at[-1]] = text


@sweep(
    "place, text",
    quick=[(place, HOSTILE[(3 * k) % len(HOSTILE)]) for k, place in enumerate(PLACES)][::3],
    full=[(place, text) for place in PLACES for text in HOSTILE],
)
def test_where_no_such_name_may_be_it_is_refused_as_text(
    place: str, text: str, tmp_path: Path
) -> None:
    files = written(tmp_path, "plain", "n", "plain")
    sort, at = PLACES[place]
    data = yaml.safe_load(files[sort].read_text())
    put(data, at, text)
    files[sort].write_text(yaml.safe_dump(data))
    verbs: dict[str, list[tuple[object, ...]]] = {
        "platform": [
            (
                "inspect",
                "--lint",
                files["model"],
                "--dim",
                "batch=1",
                "--platform",
                files["platform"],
            ),
            ("recommend", "--workload", files["two"], "--platform", files["platform"]),
        ],
        "catalog": [("recommend", "--workload", files["one"], "--catalog", files["catalog"])],
        "one": [
            ("recommend", "--workload", files["one"], "--catalog", files["catalog"]),
            ("recommend", "--workload", files["one"], "--platform", files["platform"]),
        ],
    }
    for words in verbs[sort]:
        result = call(*words)
        # Letters alone may be a name, however many.
        if text != LONG_NAME or result.exit_code:
            assert (result.exit_code in (2, 3), result.stdout) == (True, ""), result.stderr
            assert files["folder"].name in result.stderr
        assert shown_safely(result.stdout + result.stderr) == ""
        assert "Traceback" not in result.stderr
        assert len(result.stderr) < ERROR_MOST
