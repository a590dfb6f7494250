"""Posterior of a device's times, given latencies of networks measured by the user."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hetsim.cost.kernels.similarity import (
    BATCHES,
    LENGTH,
    NetworkPositions,
    covariance,
    likeness_of,
    table_of,
    traits_of,
)
from hetsim.cost.profiles.latencies import measurements_of
from hetsim.errors import InvalidInput, UnboundDimension, UsageError
from hetsim.graph.loading import load_model, read_source
from hetsim.graph.model import Model
from hetsim.hardware.kernel_figures import KernelFigures
from hetsim.hardware.measurement import Measurement
from hetsim.hardware.spec import Platform, standing_for
from hetsim.problem.parts import PROFILED_SD, Evidence, Measured

Floats = NDArray[np.float64]

OF_DEVICE = 0.75
"""Share of the variance, without floors, that is one factor for all networks on a device without
published measurements. tools/catalog/user_measured.py judges it and the constants below."""

SHARED, SHARED_FITTED = 1.0, 0.3
"""Share of a network's error common to networks of similar traits, without and with published
measurements of the device, which already cover the rest for the family's networks."""

ACROSS = 0.4
"""Correlation of one device's factors in two precisions: 0.42 in 55 pairs of precisions."""

CONSISTENT = 2.0
"""Standard deviations within which measurements count as consistent with each other."""

UNLIKELY = 30.0
"""Ratio of measured to predicted time from which a wrong unit or batch size is likely."""

Given = str | os.PathLike[str] | Measurement
Asked = Mapping[str, Given | Sequence[Given]]


@dataclass(frozen=True, slots=True)
class Posterior:
    """Log ratio of measured to predicted time of a network, given those of others.

    - `mean`, `variance`: normal.
    - `left_out` [K]: the residual of each measurement from the mean given the others.
    """

    mean: float
    variance: float
    left_out: Floats


def posterior(
    residuals: Floats, among: Floats, towards: Floats, variance: float, noise: float
) -> Posterior:
    """Return the posterior of a jointly normal error with mean 0.

    - `residuals` [K]: logarithms of measured over predicted.
    - `among` [K, K]: prior covariance of the errors of the measured networks.
    - `towards` [K]: prior covariance of the network in question with these.
    - `variance`: its prior variance.
    - `noise`: standard deviation of one measurement about its own error.

    If measurements deviate from the mean given the others by more than 2 standard deviations (root
    mean square), they contradict each other, and the noise is increased. O(K^3).
    """
    count = len(residuals)
    inverse = np.linalg.inv(among + noise**2 * np.eye(count))
    left_out = np.asarray(inverse @ residuals / np.diag(inverse))
    apart = math.sqrt(np.mean(left_out**2 * np.diag(inverse))) if count > 1 else 0.0
    if apart > CONSISTENT:
        variances = noise**2 + (apart - CONSISTENT) ** 2 * np.mean(1 / np.diag(inverse))
        inverse = np.linalg.inv(among + variances * np.eye(count))
    weights = inverse @ towards
    return Posterior(
        float(weights @ residuals), max(variance - float(weights @ towards), 0.0), left_out
    )


@dataclass(frozen=True, slots=True)
class Alone:
    """Network on one device: its predicted time, and its identifying traits.

    - `sha256`: digest of its file.
    - `seconds`: time of the whole network, dispatch included.
    - `evidence`: without measurements of the user.
    - `precision`: that of the figures that price it.
    - `executes`: assumed precision of float models; empty: their own.
    - `place`: its position among the networks of the family; None without a family.
    """

    sha256: str
    seconds: float
    batch: int
    evidence: Evidence
    precision: str
    executes: str
    place: NetworkPositions | None = field(default=None, repr=False)


def place_on(model: Model, figures: KernelFigures | None, batch: int) -> NetworkPositions | None:
    """Return the position of a model in the family of `figures`; None without a family."""
    if figures is None or not figures.likeness:
        return None
    try:
        table = table_of(model.graph)
    except UnboundDimension:
        return None
    kin = likeness_of(figures.kin, figures.likeness).kin
    traits, alone = (traits_of(table, part, kin)[None, :] for part in (1.0, 1.0 / batch))
    return NetworkPositions(traits, alone, np.log([float(batch)]))


def _published(evidence: Evidence) -> bool:
    return evidence.status in ("measured", "fitted")


def factor_sd(evidence: Evidence) -> float:
    """Return the prior standard deviation of the factor that a device has on all networks.

    For figures fitted to the device, only the difference of the user's machine remains.
    """
    floors = evidence.of_device**2
    if _published(evidence) and floors > 0:
        return math.sqrt(floors)
    rest = min(OF_DEVICE * (evidence.sd**2 - floors), evidence.own**2 - floors)
    return math.sqrt(floors + max(rest, 0.0))


def network_sd(evidence: Evidence) -> float:
    """Return the prior standard deviation of one network's error about the device's factor."""
    return math.sqrt(max(evidence.sd**2 - factor_sd(evidence) ** 2, 0.0))


def covariance_of(one: Alone, other: Alone) -> float:
    """Return the prior covariance of the errors of two networks on one device."""
    device = factor_sd(one.evidence) * factor_sd(other.evidence)
    if one.precision != other.precision:
        return ACROSS * device
    if one.place is not None and other.place is not None:
        shared = SHARED_FITTED if _published(one.evidence) else SHARED
        likeness = float(covariance(one.place, other.place, shared, LENGTH)[0, 0])
    elif one.sha256 == other.sha256:
        likeness = math.exp(-abs(math.log(one.batch / other.batch)) / BATCHES)
    else:
        likeness = 0.0
    return device + network_sd(one.evidence) * network_sd(other.evidence) * likeness


def measured_on(
    asked: Alone, known: Sequence[Alone], measurements: Sequence[Measurement]
) -> tuple[Measured, Evidence]:
    """Return a network's factor on a device from measurements, and the evidence given them.

    - `known`: the measured networks on the device, one per measurement.

    The prior evidence becomes the posterior; the error shared with the device family shrinks in
    proportion. O(K^3).
    """
    residuals = np.array(
        [math.log(one.seconds / k.seconds) for one, k in zip(measurements, known, strict=True)]
    )
    among = np.array([[covariance_of(one, other) for other in known] for one in known])
    towards = np.array([covariance_of(asked, one) for one in known])
    before = asked.evidence
    found = posterior(residuals, among, towards, before.sd**2, PROFILED_SD)
    measured = Measured(
        measurements=tuple(
            replace(one, precision=one.precision or k.executes)
            for one, k in zip(measurements, known, strict=True)
        ),
        sha256=tuple(k.sha256 for k in known),
        predicted_s=tuple(k.seconds for k in known),
        factor=math.exp(found.mean),
        left_out=tuple(np.exp(found.left_out).tolist()) if len(known) > 1 else (),
    )
    sd = math.sqrt(found.variance)
    digest = hashlib.sha256(repr(measured).encode()).hexdigest()[:12]
    part = sd / before.sd if before.sd > 0 else 0.0
    return measured, replace(
        before,
        # Another device of the kind, or other measurements of it, has a different error.
        of=f"{before.of} by measurements {digest}",
        sd=sd,
        common=before.common * part,
        # Parts of a network keep their uncertainty, as only the whole was measured.
        by_kernel=before.by_kernel / part**2 if part > 0 else 0.0,
        measured_here=measured,
        floors=tuple(replace(floor, sd=floor.sd * part) for floor in before.floors),
    )


def read_measured(
    asked: Asked, platform: Platform, profiled: Collection[str]
) -> dict[str, tuple[Measurement, ...]]:
    """Return the measurements by device: those of the caller, then those of the device's file.

    ``gpu`` stands for ``gpu.0``, ``gpu.1`` and so on. Those of a device file are ignored if the
    device has a profile of the model.

    Raises UsageError for an unknown device, one that also has a profile, or measurements with
    different numbers of threads; and as ``measurements_of``.
    """
    found: dict[str, list[Measurement]] = {}
    for name, given in asked.items():
        each = given if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
        read = [one for item in each for one in measurements_of(item)]
        for device in standing_for(name, tuple(platform.devices), f" on {platform.name}"):
            if device in profiled:
                raise UsageError(
                    f"device '{device}' has a profile and measurements", hint="leave one out"
                )
            found.setdefault(device, []).extend(read)
    for device, spec in platform.devices.items():
        if spec.measurements and device not in profiled:
            found.setdefault(device, []).extend(spec.measurements)
    for device, given_here in found.items():
        threads = sorted({one.threads for one in given_here if one.threads})
        if len(threads) > 1:
            raise UsageError(
                f"measurements of '{device}' are with {threads[0]} and {threads[1]} threads",
                hint="give those with the threads that the device has in use",
            )
    return {device: tuple(each) for device, each in found.items() if each}


def known_on(
    measurement: Measurement, model: Model | None, price: Callable[[Model, str], Alone], device: str
) -> Alone:
    """Return the measured network on the device, priced by `price`.

    - `model`: the model in question, possibly the measured one; None: none.
    - `price`: a model and a precision (empty: as asked) on the device.

    Raises UsageError if the device does not execute the precision or cannot run the whole network;
    InvalidInput if dimensions of its file are open.
    """
    own = model is not None and measurement.model == model.source and measurement.batch == 0
    network = model if own and model is not None else _model(measurement)
    try:
        return price(network, measurement.precision)
    except UnboundDimension as error:
        raise InvalidInput(
            f"the measured network has open dimensions: {', '.join(error.dims)}",
            where=measurement.model,
            hint="measure a file with fixed shapes",
        ) from None
    except UsageError as error:
        where = f"measurement {measurement} of '{device}'"
        raise UsageError(error.what, where=where, hint=error.hint) from None


def _model(measurement: Measurement) -> Model:
    source = measurement.model
    stat = (0, 0)
    if os.path.isfile(source):
        info = os.stat(source)
        stat = (info.st_mtime_ns, info.st_size)
    return _loaded(source, measurement.batch, stat)


@lru_cache(maxsize=16)
def _loaded(source: str, batch: int, stat: tuple[int, int]) -> Model:
    """Load a measured network at a batch size; `stat` identifies the version of its file.

    Binds first dimensions that are open, or that are 1 if `batch` is above 1.
    """
    graph = read_source(source)[1].proto.graph
    stored = {tensor.name for tensor in graph.initializer}
    dims = {}
    for value in graph.input:
        shape = value.type.tensor_type.shape.dim
        if value.name in stored or not shape:
            continue
        size = shape[0].dim_value
        if size == 0 or (size == 1 and batch > 1):
            dims[shape[0].dim_param or f"{value.name}[0]"] = max(batch, 1)
    return load_model(source, dims=dims)


def doubts(measured: Mapping[str, Measured]) -> tuple[str, ...]:
    """Return a warning for each measurement that is off the prediction by a factor above 30."""
    found: dict[str, None] = {}
    for device, here in measured.items():
        for one, predicted_s in zip(here.measurements, here.predicted_s, strict=True):
            ratio = one.seconds / predicted_s
            if not 1 / UNLIKELY < ratio < UNLIKELY:
                text = f"{ratio:.0f} times" if ratio > 1 else f"1/{1 / ratio:.0f} of"
                found[
                    f"the measurement {one} of '{device}' is {text} the predicted time: check its "
                    "unit and batch size"
                ] = None
    return tuple(found)
