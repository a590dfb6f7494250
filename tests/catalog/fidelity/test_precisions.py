"""No device is dearer in a narrower precision without a reason that hardware or rows give."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from catalog.fidelity.writing import CHECKOUT
from hetsim.graph.loading import load_model
from hetsim.graph.model import Model
from hetsim.hardware.catalog import device_names, load_platform
from sweeps import sweep

sys.path.insert(0, str(CHECKOUT / "benchmarks"))
import precisions

DEVICES = device_names()


@cache
def models(network: str) -> tuple[Model, Model]:
    with TemporaryDirectory() as folder:
        return load_model(f"zoo:{network}"), precisions.quantized(network, Path(folder))


@sweep("network", quick=["mobilenet_v2"], full=precisions.NETWORKS)
@sweep("device", quick=DEVICES[::30], full=DEVICES)
def test_inversions_have_reasons(device: str, network: str) -> None:
    line = precisions.line(load_platform(device), network, *models(network))
    assert not [told for told in line.inversions() if precisions.UNEXPLAINED in told]


@pytest.mark.parametrize("card", ["nvidia-rtx-3090", "nvidia-rtx-2080", "nvidia-quadro-rtx-8000"])
def test_float16_is_not_dearer_on_cards_that_ncnn_measured(card: str) -> None:
    """Their float16 was by ncnn on Vulkan, their float32 by TensorRT: 4.2 times slower."""
    line = precisions.line(load_platform(card), "mobilenet_v2", *models("mobilenet_v2"))
    assert line.float16_s is not None
    assert line.float32_s is not None
    assert line.float16_s < line.float32_s
