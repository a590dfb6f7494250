"""What the file of a kin may say: its mean figures, and the networks that its devices ran."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field, StrictFloat, StrictStr
from pydantic import field_validator as checked

from hetsim.hardware.datasheet import COVARIATES
from hetsim.hardware.files.figures import (
    NotNegative,
    Number,
    OneOf,
    Positive,
    Strict,
    Text,
    refusal,
)
from hetsim.hardware.files.kernels_schema import ErrorModel, ParameterName, Parameters
from hetsim.hardware.kernel_figures import PARAMETERS
from hetsim.hardware.kin import TRAITS, Heard, Kin, KnownNetwork
from hetsim.hardware.unmeasured import ByDatasheet

MOST_NETWORKS = 100
"""So that what they say of another one is told in less time than its kernels are counted in."""

Part = Annotated[StrictFloat, Field(ge=0, le=1, allow_inf_nan=False)]


class LikenessModel(Strict):
    """What the networks of a kin say of others, the entry ``likeness:``.

    A line of ``networks`` has the name of one, its batch, how many devices ran it, the logarithm
    of measured over predicted seconds, and its traits in the order of `TRAITS`; where the batch is
    not 1, then those of one sample. A line of ``heard`` is of one that none of its devices ran,
    with the share of the variance that others tell in place of the number of devices.
    """

    sd: NotNegative
    """Standard deviation of the logarithm of measured over predicted, by network."""
    shared: Part
    """The part of its variance that networks which are alike have in common."""
    length: Positive
    """How far along the traits a network says something of another."""
    noise: Positive
    """Standard deviation of one device's logarithm about what devices share."""
    networks: Text = Field(
        description="A line each: name, batch, devices that ran it, logarithm of measured over "
        f"predicted, and its traits: {', '.join(TRAITS)}; where the batch is not 1, then those of "
        "one sample."
    )
    heard: str = ""
    """A line each of what others of the maker's runtimes ran: name, batch, share of the variance
    that they tell, effect of which that share is expected, traits."""

    @checked("networks")
    @classmethod
    def _lines(cls, networks: str) -> str:
        lines = networks.splitlines()
        for number, line in enumerate(lines, start=1):
            if _network(line) is None:
                raise refusal(
                    f"KEY has a line {number} that is not a name, a batch, a number of devices "
                    f"and {1 + len(TRAITS)} numbers, {len(TRAITS)} more where the batch is not 1",
                    "let 'make fit' write it",
                )
        if len(lines) > MOST_NETWORKS:
            raise refusal(
                f"KEY has {len(lines)} lines, {MOST_NETWORKS} at most",
                "keep those that most devices ran",
            )
        return networks

    @checked("heard")
    @classmethod
    def _heard(cls, heard: str) -> str:
        for number, line in enumerate(heard.splitlines(), start=1):
            if _heard(line) is None:
                raise refusal(
                    f"KEY has a line {number} that is not a name, a batch, a share between 0 and 1 "
                    f"and {1 + len(TRAITS)} numbers, {len(TRAITS)} more where the batch is not 1",
                    "let 'make fit' write it",
                )
        if len(heard.splitlines()) > MOST_NETWORKS:
            raise refusal(
                f"KEY has {len(heard.splitlines())} lines, {MOST_NETWORKS} at most",
                "keep those that are surest",
            )
        return heard


CovariateName = Annotated[StrictStr, OneOf("covariate", COVARIATES)]


class ByDatasheetModel(Strict):
    """How figures of devices that nobody measured follow, the entry ``by_datasheet:``."""

    precision: Text
    """In which datasheets are read."""
    middle: dict[CovariateName, Number] = Field(default_factory=dict)
    """Usual covariates of its devices: logs of FLOP/s, bytes/s, threads; absent: 0."""
    slopes: dict[CovariateName, dict[ParameterName, Number]] = Field(default_factory=dict)
    """By covariate: what the logarithm of each parameter gains by one of it."""
    errors: tuple[ErrorModel, ...] = ()
    """Errors over chips that were left out of the fit, by batch size."""

    def to_by_datasheet(self) -> ByDatasheet:
        """Return the record."""
        errors = tuple(error.to_error() for error in self.errors)
        return ByDatasheet(self.precision, self.middle, self.slopes, errors)


class KinModel(Strict):
    """A file of ``devices/fitted/kin``: what the devices with one runtime and precision share."""

    runtime: Text
    """What software ran what was measured."""
    source: Text
    """Where the measurements are from."""
    activation_bytes: Positive
    """That one element of activations takes."""
    weight_bytes: Positive
    """That one element of weights takes."""
    mean: Parameters
    """Figures of the mean of the kin, all parameters of the formula."""
    likeness: LikenessModel
    """What its networks say of others."""
    by_datasheet: ByDatasheetModel | None = None
    """How figures follow of devices that nobody measured."""

    def to_kin(self, name: str) -> Kin:
        """Return the record of the kin called `name`, in SI units."""
        like = self.likeness
        found = (_network(line) for line in like.networks.splitlines())
        heard = (_heard(line) for line in like.heard.splitlines())
        return Kin(
            name=name,
            runtime=self.runtime,
            source=self.source,
            activation_bytes=self.activation_bytes,
            weight_bytes=self.weight_bytes,
            mean=tuple(one.si(self.mean[one.name].value) for one in PARAMETERS),
            sd=like.sd,
            shared=like.shared,
            length=like.length,
            noise=like.noise,
            networks=tuple(one for one in found if one is not None),
            heard=tuple(one for one in heard if one is not None),
            by_datasheet=None if self.by_datasheet is None else self.by_datasheet.to_by_datasheet(),
        )


def _network(line: str) -> KnownNetwork | None:
    """Return the network of a line, None where it is none."""
    words = line.split()
    try:
        batch, devices = int(words[1]), int(words[2])
        numbers = [float(word) for word in words[3:]]
    except (IndexError, ValueError):
        return None
    if min(batch, devices) < 1 or not all(map(math.isfinite, numbers)):
        return None
    if len(numbers) != 1 + len(TRAITS) * (1 if batch == 1 else 2):
        return None
    traits, alone = tuple(numbers[1 : 1 + len(TRAITS)]), tuple(numbers[-len(TRAITS) :])
    return KnownNetwork(words[0], batch, devices, numbers[0], traits, alone)


def _heard(line: str) -> Heard | None:
    """Return what a line says of a network that others ran, None where it says nothing."""
    words = line.split()
    try:
        share = float(words[2])
    except (IndexError, ValueError):
        return None
    network = _network(" ".join([*words[:2], "1", *words[3:]]))
    return Heard(network, share) if network is not None and 0 < share < 1 else None
