"""``hetsim cluster check``: what it prints of a file, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_calls import call, ok, record_of

TYPES = """\
cluster_name: mine
provider: {type: aws}
head_node_type: host
available_node_types:
  host:
    resources: {hetsim_cpu: 1}
    node_config: {}
  accelerators:
    min_workers: 1
    resources: {hetsim_gpu: 1, hetsim_npu: 1}
    node_config: {}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.yaml"
    path.write_text(TYPES)
    return path


def test_every_device_has_a_node(file: Path) -> None:
    result = ok("cluster", "check", file, "--platform", "laptop")
    assert result.stderr == ""
    rows = {words[0]: words[1] for words in map(str.split, result.stdout.splitlines()) if words[1:]}
    assert rows["cpu"] == "host"
    assert rows["gpu"] == rows["npu"] == "accelerators"


def test_a_device_without_a_node_ends_with_4(file: Path) -> None:
    file.write_text(TYPES.replace(", hetsim_npu: 1", ", hetsim_nqu: 1"))
    result = call("cluster", "check", file, "--platform", "laptop")
    assert result.exit_code == 4
    assert "stands for 'nqu', which the platform does not have" in result.stderr
    assert "did you mean 'npu'?" in result.stderr
    assert f"error: {file}: no node offers 'hetsim_npu'" in result.stderr
    assert "no node offers it" in result.stdout


def test_without_a_platform_the_file_alone_is_read(file: Path) -> None:
    record = record_of("cluster", "check", file)
    assert record["schema"] == "hetsim-cluster/1"
    assert record["platform"] is None
    assert record["file"]["errors"] == []
    assert record["file"]["devices"] == [
        {"device": "cpu", "state": "node", "nodes": ["host"]},
        {"device": "gpu", "state": "node", "nodes": ["accelerators"]},
        {"device": "npu", "state": "node", "nodes": ["accelerators"]},
    ]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_file_that_is_wrong_ends_with_3(file: Path, as_json: bool) -> None:
    file.write_text(TYPES.replace("type: host", "type: hots").replace("cpu: 1", "cpu: 0"))
    result = call("cluster", "check", file, *(["--json"] if as_json else []))
    assert result.exit_code == 3
    assert "error:" in result.stderr
    assert "2 faults" in result.stderr
    if as_json:
        errors = json.loads(result.stdout)["file"]["errors"]
        assert [error["where"] for error in errors] == [f"{file}:3", f"{file}:6"]
        assert errors[0]["hint"] == "did you mean 'host'?"
    else:
        assert [line.partition(": ")[0] for line in result.stdout.splitlines()] == [
            f"{file}:3",
            f"{file}:6",
        ]
