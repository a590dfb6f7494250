"""Evidence behind the prices of a model: the sources of figures, and the errors of times."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from math import hypot

from hetsim.cost.profiles.prices import MeasuredShare
from hetsim.hardware.datasheet import doubtful_peaks
from hetsim.hardware.kernel_figures import (
    HALF_WIDTH,
    WHAT_IF,
    Basis,
    KernelFigures,
    as_sure,
    batch_range,
    weakest,
)
from hetsim.hardware.kin import Likely
from hetsim.hardware.spec import DeviceSpec, Link
from hetsim.problem.parts import PROFILED_SD, Evidence, Floor

DATASHEET_SD, DATASHEET_COMMON = 0.73, 0.32
"""Errors of a device without kernel figures, priced by its datasheet and typical efficiencies.

Measured by ``benchmarks/datasheet_error.py``: of 919 published medians at batch 1, of 100 networks
in 124 series on 82 devices of the catalog, half were within a factor of 1.64 of such a price, 80 %
within 2.54 = exp(1.2816 * 0.73), 95 % within 4.7; the mean product of the logarithms of two kinds
of devices on one network was 0.32^2.
"""

PRIOR_SD, PRIOR_COMMON = 0.45, 0.2
"""Errors of figures from device family and datasheet alone, without a stated error: with whole
devices left out, 90 % of the logarithms were below 0.48 to 0.87 by device family."""

LINK_SD = 0.35
"""Error of a link that states none. The catalog's bandwidths are within a factor 1.4 of most
published ones of their kind (``data/measured/links.jsonl``), latencies of copies within 2."""

BY_KERNEL = 0.24
"""Share of the variance of a device's factor that is independent for each kernel.

Measured by ``hetsim devices calibrate`` on a quiet machine (AMD EPYC, one thread, 14 networks and
47 parts of them): the squared logarithm of a part's error over its whole's, by 1 / share of the
time - 1, was on average 0.24 of the mean squared logarithm of the wholes' errors. On a busy machine
parts were off by 1.35 times as much as wholes, which is 0.27.
"""

OTHER_BATCH_SD = 0.27
"""Additional error at a range of batch sizes that was not measured on the device: with each range
left out of each chip of 8 device families, errors in that range grow by this much."""

UNLIKE_FROM, UNLIKE_SD = 1.2, 0.28
"""Distance of traits from the nearest network of the family above which a network is unlike all of
them, and the additional error of its times. For more distant networks, 80 % intervals held 73 %
when their family of networks was left out of 27 device families, and 57 % when their kind was
(transformers, detection, dense prediction, other CNNs); with the addition, learned from other
makers' runtimes, 82 and 78 %. Nearer networks held 77 to 89 %."""

DOUBTFUL_SD = 0.35
"""Error of a device whose datasheet peak may be that of sparse weights, twice the dense one."""

TIMES_BY = ("flops_per_s", "bytes_per_s", "launch_s", "dispatch_s", "efficiency",
            "memory_efficiency")  # fmt: skip
"""Figures needed to price a device without kernel figures."""


def device_evidence(
    name: str,
    spec: DeviceSpec,
    figures: KernelFigures | None,
    batch: int,
    share: MeasuredShare | None = None,
    likely: Likely | None = None,
) -> Evidence:
    """Return the evidence behind the prices of a model on a device."""
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
    found = _with_floors(found, tuple(_floors(found, spec, figures, batch)))
    return found if share is None else _profiled(found, share)


def _floors(
    found: Evidence, spec: DeviceSpec, figures: KernelFigures | None, batch: int
) -> Iterator[Floor]:
    """Yield the errors that cross-validation by networks and chips does not cover."""
    doubted = {dtype for dtype, _ in doubtful_peaks(spec.flops_per_s)}
    if doubted and (figures is None or figures.precision in doubted):
        yield Floor("peaks", DOUBTFUL_SD)
    if found.basis is not None:
        networks = None if found.error is None else found.error.networks
        yield from basis_floors(found.basis, found.sd, networks)
    if found.error is not None and found.error.batch != batch_range(batch):
        yield Floor("batch", OTHER_BATCH_SD)
    if found.likely is not None and found.likely.apart > UNLIKE_FROM:
        yield Floor("unlike", UNLIKE_SD)


def basis_floors(basis: Basis, sd: float, networks: int | None) -> Iterator[Floor]:
    """Yield the errors that follow from the sources of figures.

    - `sd`: cross-validation error over `networks` left out; None: of other families.

    The error of a family is estimated from its dies, but its `sd` counts networks. With chips of
    families of two or three dies left out, 80 % intervals held 66 %, and 91 % with this term.
    """
    yield Floor("sources", basis.elsewhere)
    if basis.device is None and networks is not None:
        wider = max(_few(basis.family.dies) / _few(max(networks - 1, 1)), 1.0)
        yield Floor("dies", sd * math.sqrt(wider**2 - 1))


def _few(freedom: int) -> float:
    """Return the ratio of Student's to the normal quantile, to second order; at most 2."""
    z = HALF_WIDTH
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return min(1 + first / (freedom * z) + second / (freedom**2 * z), 2.0)


def _with_floors(found: Evidence, floors: tuple[Floor, ...]) -> Evidence:
    """Return the evidence with further errors, which do not vary between kernels."""
    every = tuple(floor for floor in floors if floor.sd > 0)
    sd = hypot(found.sd, *(floor.sd for floor in every))
    by_kernel = BY_KERNEL * (found.sd / sd) ** 2 if sd > 0 else BY_KERNEL
    return replace(found, sd=sd, by_kernel=by_kernel, floors=every)


def _by_figures(name: str, spec: DeviceSpec, figures: KernelFigures, batch: int) -> Evidence:
    status, error = figures.standing, figures.error(batch)
    sd, common = (PRIOR_SD, PRIOR_COMMON) if error is None else (error.sd, error.common)
    by_peaks, how = figures.provenance["rate_tflops"]
    if by_peaks == "derived" and how != str(figures.factor) and error is not None:
        # The errors were measured in another precision.
        status, sd, error = by_peaks, hypot(sd, PRIOR_SD), None
    if figures.factor is not None:
        status, sd, error = "derived", hypot(sd, figures.factor.sd), None
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
        basis=figures.basis,
    )


def _as_likely(found: Evidence, likely: Likely) -> Evidence:
    """Return the evidence adjusted to what the device family shows about the model."""
    sd, common = as_sure(found.own, found.common, likely.surer, likely.noise)
    return replace(found, sd=sd, common=common, likely=likely)


def _profiled(found: Evidence, share: MeasuredShare) -> Evidence:
    """Return the evidence with the measured share almost exact and independent of the family."""
    modelled = 1.0 - share.share
    common = found.common * modelled
    own = hypot(found.own * modelled, PROFILED_SD * share.share)
    whole = all(share.measured[node] for node in range(len(share.measured))) or modelled == 0.0
    return replace(
        found,
        # Another model or profile of the device has a different error.
        of=f"{found.of} by {share.profile.sha256[:12]}",
        status="measured" if whole else found.status,
        sd=hypot(common, own),
        common=common,
        measured=share.share,
        error=None if whole else found.error,
        floors=()
        if whole
        else tuple(replace(floor, sd=floor.sd * modelled) for floor in found.floors),
    )


def hypothetical_evidence(found: Evidence, supposed: Collection[str]) -> Evidence:
    """Return the evidence with hypothetical figures for the devices or links in `supposed`."""
    if found.name not in supposed:
        return found
    return replace(found, status=WHAT_IF, before=found.status)


def link_evidence(link: Link) -> Evidence:
    """Return the evidence behind transfers over a link; links of one kind share their error."""
    stated = [status for status, _ in link.provenance.values()]
    return Evidence(
        link.name,
        link.of or f"{link.a} - {link.b}",
        weakest(stated or ["estimate"]),
        LINK_SD if link.sd is None else link.sd,
    )
