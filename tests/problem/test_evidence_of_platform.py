"""What figures rest on, told of devices, links and profiles that are put together by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hetsim
from hetsim.graph.loading import model_of
from hetsim.hardware.kernel_figures import PARAMETERS, Basis, Counted, FigureError, KernelFigures
from hetsim.hardware.kin import Likely
from hetsim.hardware.routes import REFERENCE_BYTES, build_routes
from hetsim.hardware.spec import Link
from hetsim.problem.evidence import (
    BY_KERNEL,
    DATASHEET_COMMON,
    DATASHEET_SD,
    LINK_SD,
    OTHER_BATCH_SD,
    PRIOR_COMMON,
    PRIOR_SD,
    UNLIKE_FROM,
    UNLIKE_SD,
    device_evidence,
    hypothetical_evidence,
    link_evidence,
)
from hetsim.problem.of_model import batch_of, float_evidence, link_weights
from hetsim.problem.parts import PROFILED_SD, Evidence
from onnx_builders import make_model, op, value

SPEC = hetsim.load_device("nvidia-t4")
ERROR = FigureError("1", 9, 120, 0.11, 0.31, 0.03, 0.17, 0.12)


def figures(errors: tuple[FigureError, ...], rate: str = "fitted") -> KernelFigures:
    status = {one.name: ("fitted", "rows") for one in PARAMETERS}
    status["rate_tflops"] = (rate, "peaks")
    return KernelFigures("int8", (1.0,) * len(PARAMETERS), status, "k", "r", "s", errors)


def test_a_datasheet_is_as_sure_as_the_weakest_figure_that_times_need() -> None:
    spec = replace(
        SPEC,
        provenance={
            "flops_per_s.float32": ("datasheet", "s"), "bytes_per_s": ("secondary", "s"),
            "price": ("estimate", "s"), "launch_s": ("measured", "s"),
        },
    )  # fmt: skip
    found = device_evidence("gpu", spec, None, 1)
    assert found == Evidence(
        "gpu", spec.name, "secondary", DATASHEET_SD, DATASHEET_COMMON, kin="datasheet",
        by_kernel=BY_KERNEL,
    )  # fmt: skip
    for name in ("dispatch_s", "efficiency.float32", "memory_efficiency"):
        weak = replace(spec, provenance={**spec.provenance, name: ("estimate", "s")})
        assert device_evidence("gpu", weak, None, 1).status == "estimate"
    assert device_evidence("gpu", replace(spec, provenance={}), None, 1).status == "estimate"
    assert 0.0 < found.common < found.sd
    assert found.own == pytest.approx(math.sqrt(DATASHEET_SD**2 - DATASHEET_COMMON**2))


def test_four_of_five_prices_by_datasheets_are_within_what_was_measured() -> None:
    found = device_evidence("gpu", SPEC, None, 1)
    assert math.exp(1.2816 * found.sd) == pytest.approx(2.54, rel=0.01)


def test_figures_are_as_sure_as_their_errors_say() -> None:
    known = device_evidence("gpu", SPEC, figures((ERROR,)), 1)
    assert (known.sd, known.common, known.error) == (ERROR.sd, ERROR.common, ERROR)
    assert (known.kin, known.runtime, known.of, known.by_kernel) == (
        "k", figures(()).runtime, SPEC.name, BY_KERNEL,
    )  # fmt: skip
    unknown = device_evidence("gpu", SPEC, figures(()), 1)
    assert (unknown.sd, unknown.common, unknown.error) == (PRIOR_SD, PRIOR_COMMON, None)
    # Derived from another precision: of errors of that one, the step to this one comes on top.
    other = device_evidence("gpu", SPEC, figures((ERROR,), "derived"), 1)
    assert (other.status, other.error) == ("derived", None)
    assert other.sd == pytest.approx(math.hypot(ERROR.sd, PRIOR_SD))
    assert other.common == ERROR.common
    none = device_evidence("gpu", SPEC, figures((), "derived"), 1)
    assert (none.sd, none.error) == (PRIOR_SD, None)


@pytest.mark.parametrize("surer", [0.5, 1.0, 1.5])
def test_what_kin_say_of_a_model_changes_what_they_have_in_common(surer: float) -> None:
    usual = 0.4
    likely = Likely(0.1, usual * math.sqrt(surer), usual, 0.05, False, ("a",))
    alone = device_evidence("gpu", SPEC, figures((ERROR,)), 1)
    found = device_evidence("gpu", SPEC, figures((ERROR,)), 1, likely=likely)
    assert found.likely is likely
    assert found.common == pytest.approx(alone.common * likely.surer)
    assert found.own == pytest.approx(max(alone.own, 0.05))
    # A datasheet has no kin.
    assert device_evidence("gpu", SPEC, None, 1, likely=likely).likely is None


def test_an_interval_contains_what_errors_of_what_was_left_out_do_not() -> None:
    family = Counted(9, 99, 1, 3)
    own = Basis(Counted(9, 120, 1, 1), family, 0.3)
    plain = device_evidence("gpu", SPEC, figures((ERROR,)), 1)

    def reasons(batch: int, basis: Basis | None, apart: float = 0.0) -> dict[str, float]:
        given = replace(figures((ERROR,)), basis=basis)
        likely = Likely(0.0, 0.2, 0.2, 0.05, False, (), apart)
        found = device_evidence("gpu", SPEC, given, batch, likely=likely)
        told = {floor.reason: floor.sd for floor in found.floors}
        assert found.sd == pytest.approx(math.hypot(plain.sd, *told.values()))
        assert found.common == plain.common
        # Kernels have no more of it each for itself than before.
        assert found.by_kernel * found.sd**2 == pytest.approx(BY_KERNEL * plain.sd**2)
        assert found.of_device == pytest.approx(
            math.hypot(*(sd for reason, sd in told.items() if reason != "unlike"))
        )
        return told

    assert reasons(1, None) == {}
    assert reasons(1, own) == {"sources": 0.3}
    assert reasons(8, own) == {"sources": 0.3, "batch": OTHER_BATCH_SD}
    assert reasons(1, own, 2 * UNLIKE_FROM) == {"sources": 0.3, "unlike": UNLIKE_SD}
    of_family = reasons(1, replace(own, device=None))
    assert {*of_family} == {"sources", "dies"}
    # Student's t of three dies at 90 %, over that of the nine networks which the sd has in it.
    wider = math.hypot(plain.sd, of_family["dies"]) / plain.sd
    assert wider == pytest.approx(1.6377 / 1.3968, rel=0.01)


def test_a_peak_that_may_be_sparse_makes_times_less_sure() -> None:
    spec = replace(SPEC, flops_per_s={"float16": 20e12, "int8": 160e12})
    given = figures((ERROR,))
    found = device_evidence("gpu", spec, given, 1)
    assert [floor.reason for floor in found.floors] == ["peaks"]
    assert device_evidence("gpu", spec, replace(given, precision="float16"), 1).floors == ()


@pytest.mark.parametrize(
    ("share", "measured"),
    [(0.0, (False, False)), (0.25, (True, False)), (0.5, (True, True)), (1.0, (True, False)),
     (1.0, (True, True))],
)  # fmt: skip
def test_what_a_profile_measured_is_off_by_little(share: float, measured: tuple[bool, ...]) -> None:
    profile = SimpleNamespace(sha256="0123456789abcdef")
    given: Any = SimpleNamespace(share=share, measured=measured, profile=profile)
    alone = device_evidence("gpu", SPEC, figures((ERROR,)), 1)
    found = device_evidence("gpu", SPEC, figures((ERROR,)), 1, given)
    left = 1 - share
    assert found.common == pytest.approx(alone.common * left)
    assert found.own == pytest.approx(math.hypot(alone.own * left, PROFILED_SD * share))
    assert found.measured == share
    assert found.of == f"{SPEC.name} by 0123456789ab"
    whole = all(measured) or share == 1.0
    assert found.status == ("measured" if whole else alone.status)
    # What is measured owes nothing to the fit.
    assert (found.error, found.floors) == (
        (None, ()) if whole else (alone.error, tuple(
            replace(floor, sd=floor.sd * left) for floor in alone.floors
        ))
    )  # fmt: skip
    if share == 0.0:
        assert found.sd == pytest.approx(alone.sd)


def test_what_is_supposed_is_named_with_what_it_was() -> None:
    found = Evidence("gpu", "a", "fitted", 0.2, 0.1)
    assert hypothetical_evidence(found, ("npu",)) is found
    assert hypothetical_evidence(found, ("npu", "gpu")) == replace(
        found, status="what if", before="fitted"
    )


def test_a_link_is_off_by_what_it_states_or_what_links_are() -> None:
    own = Link("l", "cpu", "gpu", 1e-6, 1e9)
    assert link_evidence(own) == Evidence("l", "cpu - gpu", "estimate", LINK_SD)
    known = replace(
        own, of="pcie4-x16", sd=0.0,
        provenance={"latency_s": ("measured", "s"), "bytes_per_s": ("derived", "s")},
    )  # fmt: skip
    assert link_evidence(known) == Evidence("l", "pcie4-x16", "derived", 0.0)


@pytest.mark.parametrize(
    ("shapes", "batch"),
    [
        ([(4, 3)], 4), ([(4,)], 1), ([()], 1), ([(4,), (6, 2)], 6), ([(6, 2), (3, 2)], 6),
        ([(0, 3)], 1), ([("n", 3), (5, 3)], 5), ([("n", 3)], 1), ([(2, 1, 1)], 2),
    ],
)  # fmt: skip
def test_the_batch_is_the_first_dimension_of_the_first_input_that_has_several(
    shapes: list[tuple[int | str, ...]], batch: int
) -> None:
    names = [f"x{k}" for k in range(len(shapes))]
    nodes = [op("Neg", name, f"y{name}") for name in names]
    inputs = [value(name, shape) for name, shape in zip(names, shapes, strict=True)]
    proto = make_model(nodes, inputs, [value(f"y{name}", None) for name in names])
    model = model_of(proto, canonical="none")
    assert batch_of(model.graph) == batch


def test_a_route_is_off_by_each_link_for_the_part_of_the_time_spent_there(tmp_path: Path) -> None:
    text = """
host: cpu
devices: {cpu: intel-core-ultra-155h-cpu, gpu: nvidia-t4, npu: intel-core-ultra-155h-npu}
links:
  - {between: [cpu, gpu], latency_us: 10, bandwidth_gbytes_s: 1}
  - {between: [cpu, npu], latency_us: 30, bandwidth_gbytes_s: 4}
"""
    (tmp_path / "own.yaml").write_text(text)
    platform = hetsim.load_platform(tmp_path / "own.yaml")
    _, routes = build_routes(platform)
    weights = link_weights(platform, routes)
    takes = [each.latency_s + REFERENCE_BYTES / each.bytes_per_s for each in platform.links]
    names = list(platform.devices)
    cpu, gpu, npu = (names.index(name) for name in ("cpu", "gpu", "npu"))
    assert weights[cpu, gpu] == pytest.approx([1, 0])
    assert weights[npu, cpu] == pytest.approx([0, 1])
    assert weights[gpu, npu] == pytest.approx([t / sum(takes) for t in takes])
    assert not weights[[0, 1, 2], [0, 1, 2]].any()
    assert np.allclose(weights, weights.transpose(1, 0, 2))


def test_float_models_are_priced_by_figures_where_a_device_has_them() -> None:
    found = float_evidence("gpu", SPEC)
    assert found.precision == (SPEC.executes or SPEC.execution_dtype.get("float32", "float32"))
    assert found.error is not None
    plain = replace(SPEC, kernels={})
    assert float_evidence("gpu", plain) == device_evidence("gpu", plain, None, 1)
