"""A made-up kin: devices and networks that follow the model of the fit."""

from __future__ import annotations

import numpy as np

from catalog.kin_data import KinData, Prior, merged_limits
from catalog.points import Point, Series
from hetsim.cost.kernels.formula import COLUMN, FEATURES, FORMS
from hetsim.cost.kernels.networks import Networks, log_total
from hetsim.hardware.datasheet import COVARIATES
from hetsim.hardware.kin import Limits

KIN = "rknn-int8"
NETWORKS, DEVICES, NOISE = 12, 6, 0.02


def network(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Twenty kernels of all kinds, as rows, with counts, weights and ends in bytes."""
    rows = np.zeros((20, len(FEATURES)))
    for at, row in enumerate(rows):
        form = FORMS[at % 12]
        size, inputs, outputs = (
            4 ** rng.integers(3, 6),
            2 ** rng.integers(4, 9),
            2 ** rng.integers(4, 9),
        )
        told = {
            "form": FORMS.index(form), "rows": size, "columns": outputs, "depth": inputs,
            "groups": 1, "window_h": 1, "window_w": 1, "stride": 1, "dilation": 1, "steps": 1,
            "flops": 2.0 * size * inputs * outputs if at % 12 < 8 else 0.0,
            "read_bytes": size * inputs, "write_bytes": size * outputs,
            "weight_bytes": inputs * outputs, "largest_read_bytes": size * inputs,
        }  # fmt: skip
        for name, value in told.items():
            row[COLUMN[name]] = value
    weights = float(rows[:, COLUMN["weight_bytes"]].sum())
    return rows, np.ones(20), weights, 150528.0


def kin(rng: np.random.Generator, prior: Prior) -> tuple[KinData, np.ndarray]:
    """Devices that follow the model, and the log values they were given."""
    nets = [network(rng) for _ in range(NETWORKS)]
    figures = rng.normal(0, 0.5, (DEVICES, 4))
    covariates = np.zeros((DEVICES, len(COVARIATES)))
    covariates[:, :4] = figures - figures.mean(axis=0)
    theta = (
        prior.mean
        + rng.normal(0, 0.3, prior.mean.size) * (prior.mean_sd > 0.01)
        + covariates @ prior.slopes
        + rng.normal(0, 0.2, (DEVICES, prior.mean.size)) * (prior.own_sd > 0.01)
    )
    kernels = Networks.of(nets * DEVICES)
    owner = np.repeat(np.arange(DEVICES), NETWORKS)
    logs = log_total(theta, kernels, owner) + rng.normal(0, NOISE, owner.size)
    keys = tuple((f"{index:02}.onnx", 1) for index in range(NETWORKS))
    points = tuple(
        Point(keys[index % NETWORKS][0], 1, float(np.exp(log)), 1, 0.0, 0.0, None)
        for index, log in enumerate(logs)
    )
    data = KinData(
        name=KIN,
        series=tuple(Series(KIN, f"chip {d}", "npu", "int8") for d in range(DEVICES)),
        points=points,
        first=np.arange(0, owner.size + 1, NETWORKS),
        owner=owner,
        kernels=kernels,
        log_seconds=logs,
        weights=np.ones(owner.size),
        keys=keys,
        key=np.tile(np.arange(NETWORKS), DEVICES),
        network=np.arange(NETWORKS),
        covariates=covariates,
        middle=np.zeros(len(COVARIATES)),
        silicon=tuple(f"chip {d}" for d in range(DEVICES)),
        limits=merged_limits(Limits.of(None, None) for _ in range(DEVICES)),
        places=Networks.of(nets),
    )
    return data, theta
