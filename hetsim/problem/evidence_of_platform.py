"""What the figures of a platform's devices and links rest on when they price a model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import hypot

import numpy as np
from numpy.typing import NDArray

from hetsim.cost import DEFAULT_COST
from hetsim.cost.kernels.as_floats import figures_for
from hetsim.cost.model import WholeModelCost
from hetsim.cost.profiles.prices import MeasuredShare
from hetsim.cost.registry import cost_model
from hetsim.graph.graph import Graph
from hetsim.hardware.kernel_figures import WHAT_IF, KernelFigures, as_sure, weakest
from hetsim.hardware.kin import Likely
from hetsim.hardware.routes import REFERENCE_BYTES
from hetsim.hardware.spec import DeviceSpec, Link, Platform, Route
from hetsim.problem.evidence import Evidence

DATASHEET_SD, DATASHEET_COMMON = 0.73, 0.32
"""Of a device without figures of its kernels, priced by its datasheet and typical efficiencies.

Measured by ``benchmarks/datasheet_error.py``: of 919 published medians at batch 1, of 100 networks
in 124 series on 82 devices of the catalog, half were within a factor of 1.64 of such a price, 80 %
within 2.54 = exp(1.2816 * 0.73), 95 % within 4.7; the mean product of the logarithms of two kinds
of devices on one network was 0.32^2.
"""

PRIOR_SD, PRIOR_COMMON = 0.45, 0.2
"""Of figures that kin and datasheet alone gave, where nothing more is stated: leaving whole devices
out, 90 % of the logarithms were below 0.48 to 0.87 by kin."""

LINK_SD = 0.35
"""Of a link that states none. The catalog's bandwidths are within 1.4 of most published ones of
their kind (``data/measured/links.jsonl``), latencies of copies within 2."""

BY_KERNEL = 0.24
"""Share of the variance of a device's factor that its kernels have each for itself.

Measured by ``hetsim calibrate`` on a quiet machine (AMD EPYC, one thread, 14 networks and 47 parts
of them): the squared logarithm of a part's error over its whole's, by 1 / share of the time - 1,
was on average 0.24 of the mean squared logarithm of the wholes' errors. On a busy machine parts
were off by 1.35 times as much as wholes, which is 0.27.
"""

PROFILED_SD = 0.05
"""Of times that a profile of the model gave: what they differ by from one run to another."""

TIMES_BY = ("flops_per_s", "bytes_per_s", "launch_s", "dispatch_s", "efficiency",
            "memory_efficiency")  # fmt: skip
"""Figures of a device that prices need where it has none of its kernels."""


def device_evidence(
    name: str,
    spec: DeviceSpec,
    figures: KernelFigures | None,
    batch: int,
    share: MeasuredShare | None = None,
    likely: Likely | None = None,
) -> Evidence:
    """Return what prices of a model on a device rest on.

    Parameters
    ----------
    name : str
        Of the device on its platform.
    spec : DeviceSpec
    figures : KernelFigures or None
        Those that price the model; None: the datasheet.
    batch : int
        Samples that the model takes at once: errors are stated by ranges of it.
    share : MeasuredShare, optional
        Of its profile.
    likely : Likely, optional
        What its kin say of the model: their part of the error is as much smaller, or larger,
        as they know more of it, or less, than of each other's networks.
    """
    if figures is None:
        stated = [
            status
            for key, (status, _) in spec.provenance.items()
            if key.partition(".")[0] in TIMES_BY
        ]
        found = Evidence(
            name, spec.name, weakest(stated or ["estimate"]), DATASHEET_SD, DATASHEET_COMMON,
            kin="datasheet",
        )  # fmt: skip
    else:
        found = _by_figures(name, spec, figures, batch)
        if likely is not None:
            found = _as_likely(found, likely)
    found = replace(found, by_kernel=BY_KERNEL)
    return found if share is None else _profiled(found, share)


def _by_figures(name: str, spec: DeviceSpec, figures: KernelFigures, batch: int) -> Evidence:
    status, error = figures.standing, figures.error(batch)
    sd, common = (PRIOR_SD, PRIOR_COMMON) if error is None else (error.sd, error.common)
    rate = figures.provenance["rate_tflops"][0]
    if rate == "derived" and error is not None:
        # The errors are those of another precision.
        status, sd, error = rate, hypot(sd, PRIOR_SD), None
    return Evidence(
        name,
        spec.name,
        status,
        sd,
        common,
        kin=figures.kin,
        precision=figures.precision,
        error=error,
        runtime=figures.runtime,
    )


def _as_likely(found: Evidence, likely: Likely) -> Evidence:
    """As much surer, or less sure, as the kin say of the model."""
    sd, common = as_sure(found.own, found.common, likely.surer, likely.noise)
    return replace(found, sd=sd, common=common, likely=likely)


def _profiled(found: Evidence, share: MeasuredShare) -> Evidence:
    """What is measured is off by little, and by nothing that its kin have in common."""
    modelled = 1.0 - share.share
    common = found.common * modelled
    own = hypot(found.own * modelled, PROFILED_SD * share.share)
    whole = all(share.measured[node] for node in range(len(share.measured))) or modelled == 0.0
    return replace(
        found,
        # Another model or profile of it is off otherwise.
        of=f"{found.of} by {share.profile.sha256[:12]}",
        status="measured" if whole else found.status,
        sd=hypot(common, own),
        common=common,
        measured=share.share,
    )


def supposing(found: Evidence, supposed: Collection[str]) -> Evidence:
    """Return what figures rest on where those of the devices or links `supposed` are."""
    if found.name not in supposed:
        return found
    return replace(found, status=WHAT_IF, before=found.status)


def float_evidence(name: str, spec: DeviceSpec) -> Evidence:
    """Return what prices of float32 models at batch 1 rest on, by the default cost model."""
    dtype = spec.executes or spec.execution_dtype.get("float32", "float32")
    fitted = isinstance(cost_model(DEFAULT_COST), WholeModelCost) and spec.kernels
    return device_evidence(name, spec, figures_for(spec, dtype)[0] if fitted else None, 1)


def link_evidence(link: Link) -> Evidence:
    """Return what transfers over a link rest on; links of one kind are off alike."""
    stated = [status for status, _ in link.provenance.values()]
    return Evidence(
        link.name,
        link.of or f"{link.a} - {link.b}",
        weakest(stated or ["estimate"]),
        LINK_SD if link.sd is None else link.sd,
    )


def batch_of(graph: Graph) -> int:
    """Return how many samples a model takes at once: the first dimension of its first input.

    1 where it has none, or only one.
    """
    for name in graph.inputs:
        shape = graph.tensors[name].shape
        if shape is not None and len(shape) > 1 and isinstance(shape[0], int):
            return max(shape[0], 1)
    return 1


def link_weights(platform: Platform, routes: tuple[tuple[Route, ...], ...]) -> NDArray[np.float64]:
    """Return the part [P, P, L] of a transfer from p to q that is spent on each link.

    Of one of ``REFERENCE_BYTES``, the size that routes are chosen for. O(P^2 + hops).
    """
    index = {link.name: at for at, link in enumerate(platform.links)}
    takes_s = [link.latency_s + REFERENCE_BYTES / link.bytes_per_s for link in platform.links]
    weights = np.zeros((len(routes), len(routes), len(index)))
    for p, row in enumerate(routes):
        for q, route in enumerate(row):
            whole = sum(takes_s[index[name]] for name in route.links)
            for name in route.links:
                weights[p, q, index[name]] += takes_s[index[name]] / whole
    return weights
