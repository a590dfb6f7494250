"""What is said of a live cluster and of its links."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Console, RenderableType

from hetsim.execution.cluster import ClusterNode, Seat, Versions, differences
from hetsim.execution.transports.live_cluster import LiveCluster, MeasuredTransfer, NodeReport
from hetsim.reporting.tables.cluster import live_record, live_report, transfers_report

HERE = Versions("3.11.7", "0.1.0", "abc", "2.60.0", "1.31.0", "1.23.0", "2.3.1", "x86_64")


def drawn(report: RenderableType) -> list[str]:
    console = Console(width=140)
    with console.capture() as captured:
        console.print(report)
    return captured.get().splitlines()


def cluster() -> LiveCluster:
    other = replace(HERE, onnxruntime="1.30.0", machine="aarch64")
    good = ClusterNode("a" * 56, "10.0.0.1", True, {"hetsim_cpu": 1.0}, {})
    bad = ClusterNode("b" * 56, "10.0.0.2", True, {"hetsim_gpu": 1.0}, {})
    dead = ClusterNode("c" * 56, "10.0.0.3", False, {"hetsim_npu": 1.0}, {})
    nodes = (
        NodeReport(good, HERE),
        NodeReport(bad, other, differences(HERE, other)),
        NodeReport(dead, None, failure="it is dead"),
    )
    seats = (
        Seat("cpu", "node", (good.id,)),
        Seat("gpu", "full", (bad.id,)),
        Seat("npu", "none", ()),
    )
    return LiveCluster("10.0.0.1:6379", HERE, nodes, seats, 1.5)


def test_nodes_are_drawn_with_what_differs() -> None:
    lines = drawn(live_report(cluster()))
    text = "\n".join(lines)
    assert "2 nodes in 1.50 s" in text
    (good,) = (line for line in lines if line.startswith("aaaaaaaa"))
    assert good.split() == ["aaaaaaaa", "10.0.0.1", "cpu", "(resource)", "as", "here"]
    assert "REFUSED: onnxruntime is 1.30.0 there, 1.31.0 here" in text
    assert "the machine is aarch64 there, x86_64 here" in text
    (lost,) = (line for line in lines if line.startswith("cccccccc"))
    assert lost.split()[2:] == ["-", "it", "is", "dead"]
    assert any(line.startswith("gpu") and "other devices use it up" in line for line in lines)
    assert any(line.startswith("npu") and "no node offers it" in line for line in lines)


def test_the_record_says_which_nodes_can_be_used() -> None:
    record = live_record(cluster())
    assert [node["usable"] for node in record["nodes"]] == [True, False, False]
    assert [node["failure"] for node in record["nodes"]] == [None, None, "it is dead"]
    assert [entry["name"] for entry in record["nodes"][1]["differences"]] == [
        "onnxruntime",
        "machine",
    ]


def test_transfers_that_no_link_carries_say_so() -> None:
    network = MeasuredTransfer("cpu", "gpu", "a", "b", "network", 1024, 2e-3, 1e-3)
    free = replace(network, target="npu", target_node="a", way="shared memory", modelled_s=0.0)
    text = "\n".join(drawn(transfers_report([network, free])))
    assert "2.00x" in text
    assert "without a copy" in text
    assert "no network" not in text
    assert "without a copy" not in "\n".join(drawn(transfers_report([network])))
