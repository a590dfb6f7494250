"""What rows prove that a device runs whole, the catalog does not refuse."""

from __future__ import annotations

import pytest

from catalog.measured import measured_folder
from catalog.points import Graphs, read_graphs
from hetsim.hardware.catalog import load_platform
from hetsim.problem.problem import Problem

NPUS = ("intel-core-ultra-155h-npu", "intel-core-ultra-265k-npu")
BERTS = ("bert_base_384", "distilbert_mlm_384")


@pytest.fixture(scope="module")
def graphs() -> Graphs:
    return read_graphs(measured_folder())


@pytest.mark.parametrize(
    ("device", "network", "execute"),
    [
        *((npu, bert, {}) for npu in NPUS for bert in BERTS),
        ("google-edge-tpu", "densenet121", {"npu": "int8"}),
    ],
)
def test_networks_that_ran_on_a_device_are_taken_whole(
    device: str, network: str, execute: dict[str, str], graphs: Graphs
) -> None:
    """Embeddings were refused by Intel's NPUs, BatchNormalization by the Edge TPU."""
    model = graphs.load(f"{network}.onnx")
    assert Problem.of(model, load_platform(device), execute=execute).runnable.all()
