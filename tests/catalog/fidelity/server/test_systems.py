"""What is read of a system: its devices, its limit, and whose SingleStream stands beside it."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.fidelity.server.points import LIMITS_S, ServerSystem, server_systems
from catalog.points import Chips

CHIPS = Chips({"Chip, other name": "Chip"}, {})


def row(scenario: str, figure: float, **how: Any) -> dict[str, Any]:
    """A row of MLPerf, with what differs from a plain one."""
    config = {
        "submitter": how.pop("submitter", "Somebody"),
        "system": how.pop("system", "box"),
        "accelerators": how.pop("accelerators", 1),
        "cores": how.pop("cores", None),
        "latency_ms": {"p99": 14.0},
    }
    told = {"latency_ms": figure} if scenario == "SingleStream" else {"throughput_per_s": figure}
    return {
        "kind": "mlperf",
        "metric": f"(MLPerf {scenario})",
        "source": f"github:mlcommons/inference_results_{how.pop('round', 'v1.0')}@0:closed",
        "config": config,
        "chip": "Chip",
        "unit": "gpu",
        "graphs": [{"file": "resnet50.onnx"}],
        "precision": "int8",
        "runtime": "TensorRT 8.0",
        **told,
        **how,
    }


def test_offline_is_of_the_same_system_and_division() -> None:
    altered = {"note": "open division: the network may be altered (pruned or searched)"}
    found = server_systems(
        [
            row("Server", 100),
            row("Server", 300, **altered),
            row("Server", 500, round="v1.1"),
            row("Offline", 200),
            row("Offline", 400, **altered),
            row("Offline", 600, system="another"),
        ],
        CHIPS,
    )
    assert [(one.server_per_s, one.offline_per_s) for one in found] == [
        (100, 200),
        (300, 400),
        (500, None),
    ]


def test_single_stream_is_its_own_else_of_its_chip() -> None:
    others = [
        row("SingleStream", 3.0, system="beside", chip="Chip, other name"),
        row("SingleStream", 9.0, system="elsewhere", submitter="Else"),
        row("SingleStream", 90.0, system="weak MaxQ"),
        row("SingleStream", 90.0, system="floats", precision="fp32"),
        row("SingleStream", 90.0, system="by another", runtime="ONNX Runtime"),
        row("SingleStream", 90.0, system="of another", chip="Other"),
    ]
    (one,) = server_systems([row("Server", 100), *others], CHIPS)
    assert (one.alone_s, one.alone_of) == (0.003, "chip")
    (one,) = server_systems([row("Server", 100, submitter="Third"), *others], CHIPS)
    assert (one.alone_s, one.alone_of) == (0.006, "chip")
    own = row("SingleStream", 2.0)
    (one,) = server_systems([row("Server", 100), *others, own], CHIPS)
    assert (one.alone_s, one.alone_of) == (0.002, "system")
    (one,) = server_systems([row("Server", 100), *others[2:]], CHIPS)
    assert (one.alone_s, one.alone_of) == (None, "")


@pytest.mark.parametrize(
    ("accelerators", "cores", "devices"),
    [(1, None, 1), (0, "2 x 28", 2), (0, "8 x 28", 8), (4, "2 x 28", 4), (0, None, 1)],
)
def test_devices_are_accelerators_or_sockets(
    accelerators: int, cores: str | None, devices: int
) -> None:
    (one,) = server_systems(
        [row("Server", 100, accelerators=accelerators, cores=cores)],
        CHIPS,
    )
    assert one.devices == devices


@pytest.mark.parametrize(
    ("told", "system", "meant"),
    [
        ("int8", "box", "int8"),
        ("No change.", "box-bf16", "bfloat16"),
        ("No change.", "box-INT8", "int8"),
        ("FP32 + Int8", "box", "int8"),
        ("int8 or fp16 (not said)", "box", ""),
    ],
)
def test_a_precision_that_is_left_open_is_read_from_the_name(
    told: str, system: str, meant: str
) -> None:
    (one,) = server_systems([row("Server", 100, precision=told, system=system)], CHIPS)
    assert one.precision == meant


def test_no_published_run_was_beyond_its_limit(systems: list[ServerSystem]) -> None:
    """As rules have it; and of each network that many ran some came near."""
    assert len({one.key for one in systems}) == len(systems)
    for network, limit_s in LIMITS_S.items():
        p99_s = [one.p99_s for one in systems if one.network == network]
        assert max(p99_s) <= limit_s
        assert len(p99_s) < 10 or max(p99_s) > 0.95 * limit_s
