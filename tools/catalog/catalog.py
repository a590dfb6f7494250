"""Which published measurements the devices of the catalog stand on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from catalog.chips import Chips
from catalog.points import Points, Series
from hetsim.base.units import GIGA
from hetsim.errors import PlatformError, nearest
from hetsim.hardware.datasheet import Datasheet
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.files.complaints import read_file
from hetsim.hardware.files.device_schema import DeviceModel


@dataclass(frozen=True, slots=True)
class Asked:
    """One precision of one device that is to be fitted.

    Attributes
    ----------
    device : str
        Name in the catalog.
    precision : str
        In which the device runs by these figures.
    kin : str
    series : Series or None
        The measurements it stands on; None where it has what its kin have.
    model : DeviceModel
        The device's own file.
    of_kin : str
        The precision that rows of the kin name.
    runtime : str
        Of the device's ``runtimes``; empty: the one that its file names first.
    computes : str or None
        What the runtime computes in, where that is not the precision: ``tf32``.
    """

    device: str
    precision: str
    kin: str
    series: Series | None
    model: DeviceModel
    of_kin: str
    runtime: str = ""
    computes: str | None = None

    @property
    def flops_per_s(self) -> float | None:
        """The peak that its rates cannot exceed."""
        return self.model.peak(self.kin, self.of_kin, self.computes)

    @property
    def bytes_per_s(self) -> float:
        """The bandwidth of its memory."""
        return self.model.memory_bandwidth_gbytes_s.value * GIGA

    @property
    def name(self) -> str:
        """What tells a device by one runtime from others: ``nvidia-rtx-3090:ncnn``."""
        return f"{self.device}:{self.runtime}" if self.runtime else self.device

    @property
    def datasheet(self) -> Datasheet:
        """What the device's file says of it in the precision of its kin."""
        return self.model.datasheet(self.kin, self.of_kin)


def catalog_asks(points: Points, chips: Chips, folder: Path | None = None) -> list[Asked]:
    """Return what ``measured`` of the catalog's device files asks for, by device and precision.

    Raises
    ------
    PlatformError
        Where a file is wrong, or names a kin or a series that no rows make.
    """
    found = []
    for path in sorted((folder or catalog_folder()).glob("*.yaml")):
        model, wrong = read_file(DeviceModel, path, f"devices/{path.name}", catalog=True)
        if wrong is not None:
            raise wrong.whole
        assert model is not None
        told_by = {"": model.measured} | {k: one.measured for k, one in model.runtimes.items()}
        for runtime, precision, told in (
            (by, *entry) for by in told_by for entry in sorted(told_by[by].items())
        ):
            key = f"runtimes.{runtime}.measured" if runtime else "measured"
            where = f"devices/{path.name}: {key}.{precision}"
            if not points.kin(told.kin):
                kin = sorted({series.kin for series in points.series})
                raise PlatformError(
                    f"no rows are of '{told.kin}'", where=where, hint=nearest(told.kin, kin)
                )
            series = None
            if told.chip is not None:
                asked = {name: str(value) for name, value in told.where.items()}
                series = picked(points, told.kin, chips.name(told.chip), asked, where)
            of_kin = min(one.precision for one in points.kin(told.kin))
            found.append(
                Asked(path.stem, precision, told.kin, series, model, of_kin, runtime, told.computes)
            )
    return found


def picked(points: Points, kin: str, chip: str, where: Mapping[str, str], place: str) -> Series:
    """Return the one series of a kin and chip that has the settings `where`.

    Raises
    ------
    PlatformError
        Where none has, or several have.
    """
    of_chip = [series for series in points.kin(kin) if series.chip == chip]
    if not of_chip:
        known = sorted({series.chip for series in points.kin(kin)})
        raise PlatformError(
            f"no rows of '{kin}' are of '{chip}'", where=place, hint=nearest(chip, known)
        )
    found = [series for series in of_chip if where.items() <= dict(series.where).items()]
    exact = [series for series in found if dict(series.where) == where]
    if len(exact or found) == 1:
        return (exact or found)[0]
    settings = "; ".join(str(series) for series in of_chip)
    raise PlatformError(
        f"'where' picks {len(found)} series of '{chip}'",
        where=place,
        hint=f"name one of them: {settings}",
    )


def with_catalog(points: Points, chips: Chips, asks: list[Asked]) -> dict[Series, Datasheet]:
    """Return the datasheets of series of chips that devices of the catalog stand on.

    What the file of a device says of its unit goes before the file of chips, but of processors:
    what threads of them ran on, that one says alone.
    """
    told: dict[tuple[str, str], Asked] = {}
    for asked in asks:
        if asked.series is not None:
            told.setdefault((asked.series.chip, asked.series.unit), asked)
    found = {}
    for series in points.series:
        device = told.get((series.chip, series.unit))
        if device is None or (series.unit == "cpu" and chips.datasheet(series) != Datasheet()):
            continue
        found[series] = device.model.datasheet(series.kin, series.precision)
    return found
