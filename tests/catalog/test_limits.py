"""Fits stay within what chips can do, and no source moves what its kin say of a network far."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.kin_data import merged_limits, prior_of
from catalog.likeness import OF_ONE_SOURCE, agreed
from catalog.mixed import fit_kin
from hetsim.cost.kernels.similarity import family_of, groups_of
from hetsim.hardware.catalog import device_names, load_device
from hetsim.hardware.files.catalog_files import find
from hetsim.hardware.files.device_schema import DeviceModel
from hetsim.hardware.files.reader import read_description
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS
from hetsim.hardware.kin import Limits
from kin_builders import KIN, kin

RATE, MATMUL, POINTWISE = (INDEX[name] for name in ("rate_tflops", "matmul", "pointwise"))
BANDWIDTH, BEYOND = INDEX["bandwidth_gbytes_s"], INDEX["beyond_cache"]
WEIGHTS = INDEX["weights_gbytes_s"]
ON_ALL_CORES = {
    ("amlogic-a311d2-cpu", ""),
    ("rockchip-rk3399-cpu", "tflite"),
}
"""Rows of these ran on the small cores, too, which the catalog's devices leave to the system."""
EFFECTS = st.lists(st.floats(-3, 3), min_size=1, max_size=12)


def test_rates_are_below_the_peak_and_bandwidths_beyond_the_cache_below_the_memory() -> None:
    theta = np.zeros((1, len(PARAMETERS)))
    theta[0, [RATE, MATMUL, BANDWIDTH, BEYOND, WEIGHTS]] = 5.0, 2.0, 4.0, -0.1, 9.0
    held = Limits.of(np.exp(4.0), np.exp(3.0)).within(theta)[0]
    assert held[RATE] == pytest.approx(4.0)
    assert held[MATMUL] == held[POINTWISE] == pytest.approx(0.0)
    assert (held[BANDWIDTH], held[BEYOND]) == pytest.approx((4.0, -1.0))
    assert held[WEIGHTS] == pytest.approx(3.0)
    assert (Limits.of(None, None).within(theta) == theta).all()


def test_a_fit_stays_within_the_limits_of_its_chips_and_follows_the_points_as_well() -> None:
    prior = prior_of(KIN)
    made, _ = kin(np.random.default_rng(5), prior)
    free = fit_kin(made, prior)
    theta = free.theta(made.covariates)
    limits = merged_limits(
        Limits.of(float(np.exp(one[RATE] - 0.1)), float(np.exp(one[BANDWIDTH] + one[BEYOND] - 0.3)))
        for one in theta
    )
    held = replace(made, limits=limits)
    fit = fit_kin(held, prior)
    found = fit.theta(held.covariates)
    least, most = limits.bounds(found)
    assert (found <= most + 1e-9).all()
    assert (found >= least - 1e-9).all()
    misses = [
        float(np.median(np.abs(made.log_seconds - made.logs(each)))) for each in (theta, found)
    ]
    assert misses[1] < misses[0] + 0.03


@given(EFFECTS, st.floats(-3, 3))
def test_one_more_source_moves_an_effect_by_little_whatever_it_says(
    effects: list[float], more: float
) -> None:
    before, after = agreed(effects), agreed([*effects, more])
    assert abs(after - before) <= OF_ONE_SOURCE + 1e-12
    assert abs(agreed([more])) <= OF_ONE_SOURCE


def test_many_sources_that_agree_are_believed() -> None:
    assert agreed([0.4] * 6) == 0.4
    assert agreed([0.4, 0.41]) == 2 * OF_ONE_SOURCE
    assert agreed([0.0, 0.7]) == 0.0


def test_siblings_are_of_one_family() -> None:
    assert {family_of(name) for name in ("bert_base_128", "bert_large_384", "mobilebert_384")} == {
        "bert"
    }
    assert family_of("mobilenet_v2_0.35_128") == family_of("ncnn_mobilenet_yolo")
    assert family_of("repvgg_a1") != family_of("vgg16")
    assert set(groups_of(["resnet18", "vgg16", "resnet50"]).values()) == {"resnet", "vgg"}


def test_no_figure_of_the_catalog_is_beyond_its_chip() -> None:
    beyond = []
    for name in device_names():
        model, _ = read_description(DeviceModel, *find("device", name))
        assert model is not None
        spec = load_device(name)
        told = {"": model.measured} | {key: one.measured for key, one in model.runtimes.items()}
        for runtime, kernels in (("", spec.kernels), *spec.runtimes.items()):
            if (name, runtime) in ON_ALL_CORES:
                continue
            for precision, figures in kernels.items():
                of = "float" if figures.kin.endswith("-float") else precision
                measured = told[runtime].get(precision)
                computes = None if measured is None else measured.computes
                peak = model.peak(figures.kin, of, computes)
                limits = Limits.of(peak, spec.bytes_per_s)
                theta = np.log(figures.values)[None, :]
                if (theta > limits.bounds(theta)[1] + 2e-3).any():
                    beyond.append((name, runtime, precision))
    assert not beyond
