"""Cluster files read without Ray: what they offer, and every fault on its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hetsim.errors import Infeasible, NotOffered
from hetsim.execution.cluster import (
    ClusterFile,
    actor_options,
    nodes_of,
    read_cluster_file,
    refuse_unserved,
    seats_of_file,
    unknown_devices,
)
from hetsim.execution.transports.live_cluster import live_seats

TYPES = """\
cluster_name: test
provider: {type: aws, region: here}
max_workers: 3
head_node_type: host
available_node_types:
  gpu:
    min_workers: 1
    resources: {hetsim_gpu: 1}
    node_config: {}
  host:
    resources: {hetsim_cpu: 1}
    node_config: {}
  spare:
    resources: {hetsim_dsp: 2}
    node_config: {}
  named:
    min_workers: 2
    resources: {}
    labels: {hetsim_npu: "1", rack: a}
    node_config: {}
setup_commands:
  - pip install ray==1.2.3 'onnxruntime==1.*' numpy
"""
LOCAL = """\
cluster_name: test
provider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2]}
head_start_ray_commands:
  - ray stop; ray start --head
"""


def read(folder: Path, text: str) -> ClusterFile:
    path = folder / "cluster.yaml"
    path.write_text(text)
    found, errors = read_cluster_file(str(path))
    assert errors == ()
    assert found is not None
    return found


def faults(folder: Path, text: str) -> list[str]:
    path = folder / "cluster.yaml"
    path.write_text(text)
    found, errors = read_cluster_file(str(path))
    assert found is None
    assert len(errors) > 0
    return [str(error).removeprefix(f"{path}:") for error in errors]


def test_node_types_offer_devices(tmp_path: Path) -> None:
    found = read(tmp_path, TYPES)
    assert [(kind.name, kind.least, kind.offers, kind.line) for kind in found.node_types] == [
        ("host", 1, {"cpu": "resource"}, 10),
        ("gpu", 1, {"gpu": "resource"}, 6),
        ("spare", 0, {"dsp": "resource"}, 13),
        ("named", 2, {"npu": "label"}, 16),
    ]
    devices = ("cpu", "gpu", "npu", "dsp", "tpu")
    seats = {seat.device: (seat.state, seat.nodes) for seat in seats_of_file(found, devices)}
    assert seats == {
        "cpu": ("node", ("host",)),
        "gpu": ("node", ("gpu",)),
        "npu": ("node", ("named",)),
        "dsp": ("on demand", ("spare",)),
        "tpu": ("none", ()),
    }
    assert [seat.device for seat in seats_of_file(found, None)] == ["cpu", "dsp", "gpu", "npu"]
    assert unknown_devices(found, ("cpu", "gpu", "npu")) == (("spare", "dsp"),)


def test_what_has_no_node_is_refused(tmp_path: Path) -> None:
    found = read(tmp_path, TYPES)
    with pytest.raises(Infeasible, match="here: no node offers 'hetsim_tpu'; start a node"):
        refuse_unserved(seats_of_file(found, ("cpu", "tpu")), "here")
    with pytest.raises(Infeasible, match="no node that offers 'hetsim_dsp' is started"):
        refuse_unserved(seats_of_file(found, ("cpu", "dsp")), "here")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("max_workers: 3", "max_worker: 3", "3: unknown key 'max_worker'; did you mean"),
        ("max_workers: 3", "max_workers: many", "3: 'max_workers': 'many' is not of type"),
        ("type: host", "type: hosts", "4: unknown node type 'hosts'; did you mean 'host'?"),
        ("head_node_type: host\n", "", "4: missing key 'head_node_type'"),
        ("hetsim_gpu: 1", "hetsim_gpu: 0", "8: 'hetsim_gpu' is 0: it offers nothing"),
        ('hetsim_npu: "1"', 'hetsim_npu: "yes"', "19: the label 'hetsim_npu' is 'yes'"),
        ("    min_workers: 2", "    min_worker: 2", "17: unknown key 'min_worker'"),
        ("cluster_name: test", "", "2: 'cluster_name' is a required property"),
        ("region: here}", "region: here", "2: not YAML"),
    ],
)  # fmt: skip
def test_faults_of_node_types(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert TYPES.count(old) >= 1
    found = faults(tmp_path, TYPES.replace(old, new, 1))
    assert any(one.startswith(fault) for one in found), found


def test_own_machines_say_themselves_what_they_offer(tmp_path: Path) -> None:
    found = read(tmp_path, LOCAL)
    assert [(kind.name, kind.least, kind.line) for kind in found.node_types] == [
        ("head", 1, 3), ("workers", 1, 1),
    ]  # fmt: skip
    assert [(seat.state, seat.nodes) for seat in seats_of_file(found, ("cpu",))] == [
        ("unstated", ("head", "workers"))
    ]
    wrong = faults(tmp_path, LOCAL.replace("type: local", "typ: local"))
    assert any(one.startswith("2: 'provider': 'type' is a required") for one in wrong), wrong


def test_a_file_that_is_none() -> None:
    found, (error,) = read_cluster_file("no-such.yaml")
    assert found is None
    assert (error.what, error.exit_code) == ("no such file", 2)


def node(
    name: str, *, alive: bool = True, labels: dict[str, str] | None = None, **amounts: float
) -> Any:
    return {
        "NodeID": name,
        "NodeManagerAddress": "10.0.0.1",
        "Alive": alive,
        "Resources": amounts,
        "Labels": labels or {},
    }


def test_where_live_actors_go() -> None:
    nodes = nodes_of(
        [
            node("dead", alive=False, hetsim_npu=1),
            node("b", hetsim_gpu=1, labels={"hetsim_npu": "1"}),
            node("a", hetsim_gpu=1),
        ]
    )
    assert [entry.id for entry in nodes] == ["a", "b", "dead"]
    assert actor_options(("gpu", "npu"), nodes) == {
        "gpu": {"resources": {"hetsim_gpu": 0.001}},
        "npu": {"label_selector": {"hetsim_npu": "1"}},
    }
    with pytest.raises(NotOffered, match="no node of the Ray cluster offers 'hetsim_cpu'"):
        actor_options(("gpu", "cpu"), nodes)
    seats = live_seats(nodes, ("gpu", "npu", "cpu"), {"hetsim_gpu": 2.0})
    assert [(seat.state, seat.nodes) for seat in seats] == [
        ("node", ("a", "b")),
        ("node", ("b",)),
        ("none", ()),
    ]
    plain = nodes_of([node("a", CPU=1)])
    assert actor_options(("gpu",), plain) == {"gpu": {}}
    assert [seat.state for seat in live_seats(plain, ("gpu",), {})] == ["anywhere"]
