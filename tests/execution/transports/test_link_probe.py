"""One node looked at and measured, and where measuring means nothing."""

from __future__ import annotations

import pytest
import ray

from hetsim.errors import Infeasible, NotOffered
from hetsim.execution.cluster import ClusterNode, own_versions
from hetsim.execution.transports.live_cluster import (
    _homes,
    look_at,
    measure_links,
    refuse_unplaceable,
)
from hetsim.execution.transports.ray_connection import RayConnection
from hetsim.hardware.catalog import load_platform
from hetsim.hardware.routes import build_routes


def machine(name: str, *, alive: bool = True, **amounts: float) -> ClusterNode:
    return ClusterNode(name, f"10.0.0.{len(name)}", alive, amounts, {})


def test_devices_of_one_node_share_its_memory(ray_connection: RayConnection) -> None:
    platform = load_platform("laptop")
    _, routes = build_routes(platform)
    found = measure_links("auto", platform, (1000, 200_000), repeats=2)
    devices = tuple(platform.devices)
    seen = {(entry.source, entry.target, entry.nbytes) for entry in found}
    assert len(found) == len(seen) == 2 * len(devices) * (len(devices) - 1)
    (node,) = ray.nodes()
    for entry in found:
        assert entry.source_node == entry.target_node == node["NodeID"]
        assert entry.way == "shared memory"
        assert entry.measured_s > 0
        p, q = devices.index(entry.source), devices.index(entry.target)
        assert entry.modelled_s == routes[p][q].seconds(entry.nbytes)


def test_one_node_is_looked_at(ray_connection: RayConnection) -> None:
    live = look_at("auto", ("cpu", "gpu"))
    (report,) = live.nodes
    assert report.versions == own_versions() == live.here
    assert report.usable
    assert [(seat.state, seat.nodes) for seat in live.seats] == [("anywhere", ()), ("anywhere", ())]
    with pytest.raises(NotOffered, match="no node of the Ray cluster offers 'hetsim_gpu'"):
        refuse_unplaceable("gpu", started=True)


def test_a_node_that_does_not_answer_is_reported(ray_connection: RayConnection) -> None:
    (report,) = look_at("auto", answer_s=0.0).nodes
    assert report.versions is None
    assert not report.usable
    assert report.failure == "no answer within 0 s"


def test_of_several_nodes_the_first_is_measured() -> None:
    nodes = (
        machine("a", hetsim_cpu=1, hetsim_gpu=1),
        machine("bb", hetsim_gpu=1),
        machine("ccc", alive=False, hetsim_npu=1),
    )
    home = _homes(nodes, ("cpu", "gpu"), {"hetsim_cpu": 1.0}, "here")
    assert {device: node.id for device, node in home.items()} == {"cpu": "a", "gpu": "a"}
    with pytest.raises(Infeasible, match="no node offers 'hetsim_npu'"):
        _homes(nodes, ("cpu", "npu"), {}, "here")
    with pytest.raises(Infeasible, match="no node offers a device"):
        _homes((machine("a"), machine("bb")), ("cpu", "gpu"), {}, "here")
    one = _homes((machine("a"), machine("bb", alive=False)), ("cpu", "gpu"), {}, "here")
    assert {node.id for node in one.values()} == {"a"}
