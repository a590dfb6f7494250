"""The cost model ``fitted``: which figures price a kernel, and what its estimate says."""

from __future__ import annotations

from dataclasses import replace

import pytest

import hetsim
from datasheets import by_datasheet
from figure_builders import VALUES, kernel_figures
from hetsim.cost.fitted import Fitted
from hetsim.cost.kernels.formula import features, kernel_parts, kernel_seconds, streamed_share
from hetsim.cost.model import Kernel, WholeModelCost
from hetsim.cost.registry import cost_model, cost_models
from hetsim.cost.roofline import Roofline
from hetsim.graph.model import Model
from hetsim.graph.work import Work, graph_work
from hetsim.hardware.catalog import device_names, load_device, load_platform
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.spec import DeviceSpec, Platform
from loaded_devices import loaded_device
from sweeps import sweep

DEVICE = replace(
    by_datasheet(load_device("nvidia-t4")),
    flops_per_s={"float32": 1e12, "float16": 8e12, "int8": 16e12},
    execution_dtype={},
)
ON_CHIP = VALUES["weights_on_chip_mib"] * 2**20


def with_figures(*precisions: str, spec: DeviceSpec = DEVICE, **values: float) -> DeviceSpec:
    kernels = {precision: kernel_figures(precision, **values) for precision in precisions}
    return replace(spec, kernels=kernels)


@pytest.fixture(scope="module")
def resnet() -> Model:
    return hetsim.load_model("zoo:resnet50")


@pytest.fixture(scope="module")
def laptop() -> Platform:
    """The laptop with figures of float32 and int8 for its cpu, and of float16 for its gpu."""
    platform = load_platform("laptop")
    devices = dict(platform.devices)
    devices["cpu"] = replace(
        with_figures("float32", spec=devices["cpu"]),
        kernels={
            "float32": kernel_figures("float32", dispatch_us=11),
            "int8": kernel_figures("int8", dispatch_us=7),
        },
    )
    devices["gpu"] = with_figures("float16", spec=devices["gpu"], dispatch_us=13)
    devices["npu"] = replace(devices["npu"], kernels={})
    return replace(platform, devices=devices)


def test_it_is_registered_and_looks_at_whole_models() -> None:
    assert "fitted" in cost_models()
    assert isinstance(cost_model("fitted"), WholeModelCost)
    assert not isinstance(cost_model("roofline"), WholeModelCost)


@pytest.mark.parametrize("name", ["bert_small", "squeezenet"])
def test_a_kernel_is_its_features_by_the_formula(name: str) -> None:
    works = graph_work(hetsim.load_model(f"zoo:{name}").graph)
    cost, spec = Fitted().of_works(works), with_figures("float32")
    figures = spec.kernels["float32"]
    whole = sum(one.weight_bytes for one in works)
    for one in works:
        kernel = Kernel((one,))
        found = cost.estimate(spec, kernel)
        row = features(kernel, spec)
        if not (row[1] or one.read_bytes or one.write_bytes or one.weight_bytes):
            assert found.seconds == found.launch_s == 0.0
            continue
        streamed = streamed_share(ON_CHIP, whole)
        parts = kernel_parts(figures.values, row.tolist(), streamed)
        assert found.seconds == parts[0] == kernel_seconds(figures.values, row, streamed)
        assert (found.compute_s, found.memory_s) == (parts[1], parts[2] + parts[3])
        assert found.launch_s == parts[4] > 0
        assert found.provenance == "fitted; test-kin; fitted"


def test_a_device_without_figures_is_priced_by_the_roofline(resnet: Model) -> None:
    works = graph_work(resnet.graph)
    cost = Fitted().of_works(works)
    for one in works:
        kernel = Kernel((one,))
        assert cost.estimate(DEVICE, kernel) == Roofline().estimate(DEVICE, kernel)
    assert cost.figures(DEVICE, resnet.graph, works) is None


def test_the_status_is_the_weakest_of_what_makes_the_largest_part() -> None:
    figures = kernel_figures("float32")
    spec = replace(DEVICE, kernels={"float32": figures})
    statuses = {
        "bandwidth_gbytes_s": "prior",
        "weights_gbytes_s": "estimate",
        "resize": "secondary",
    }

    def told(figures: KernelFigures, kernel: Work) -> str:
        provenance = {
            name: (statuses.get(name, status), source)
            for name, (status, source) in figures.provenance.items()
        }
        made = replace(figures, provenance=provenance)
        estimate = Fitted().estimate(replace(spec, kernels={"float32": made}), Kernel((kernel,)))
        return estimate.provenance

    moving = Work(0, 10**8, 10**8, 0, "elementwise", "float32", True, form="elementwise")
    assert told(figures, moving) == "fitted; test-kin; prior"
    tiny = Work(0, 10, 10, 0, "elementwise", "float32", True, form="elementwise")
    assert told(figures, tiny) == "fitted; test-kin; fitted"
    reading = Work(0, 10, 10, 10**8, "elementwise", "float32", True, form="elementwise")
    assert told(figures, reading) == "fitted; test-kin; estimate"


def test_weights_that_fit_on_the_chip_are_hardly_read_and_count_as_the_device_holds_them() -> None:
    reading = Work(0, 0, 0, 200_000, "matmul", "float32", True, form="elementwise")
    spec = with_figures("float32", "float16")
    half = replace(spec, execution_dtype={"float32": "float16"})
    many, alone = (Fitted().of_works([reading] * count) for count in (10, 1))
    kernel = Kernel((reading,))
    bytes_s = VALUES["weights_gbytes_s"] * 1e9
    for device, item in ((spec, 1.0), (half, 0.5)):
        held = 200_000 * item
        share = streamed_share(ON_CHIP, 10 * held)
        assert 0.03 < share < 1
        assert many.estimate(device, kernel).memory_s == pytest.approx(held * share / bytes_s)
        share = streamed_share(ON_CHIP, held)
        assert alone.estimate(device, kernel).memory_s == pytest.approx(held * share / bytes_s)
        assert Fitted().estimate(device, kernel).memory_s == pytest.approx(held / bytes_s)


def test_a_subgraph_costs_the_dispatch_of_the_precision_that_the_model_runs_in(
    resnet: Model, laptop: Platform
) -> None:
    roofline = hetsim.Problem.of(resnet, laptop, cost="roofline")
    assert roofline.dispatch_s == tuple(spec.dispatch_s for spec in laptop.devices.values())
    npu = laptop.devices["npu"].dispatch_s
    assert hetsim.Problem.of(resnet, laptop, cost="fitted").dispatch_s == (11e-6, 13e-6, npu)
    as_if = hetsim.Problem.of(resnet, laptop, cost="fitted", execute={"cpu": "int8"})
    assert as_if.dispatch_s == (7e-6, 13e-6, npu)


@sweep("step", quick=[4], full=[4, 1])
def test_every_device_of_the_catalog_prices_a_model(step: int) -> None:
    works = graph_work(hetsim.load_model("zoo:squeezenet").graph)
    cost = Fitted().of_works(works)
    for name in device_names()[::step]:
        spec = loaded_device(name)
        for one in works:
            found = cost.estimate(spec, Kernel((one,)))
            assert 0.0 <= found.launch_s <= found.seconds < 1.0, name
            assert found.provenance.startswith("fitted" if spec.kernels else "roofline"), name
