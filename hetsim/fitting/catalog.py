"""Which published measurements the devices of the catalog stand on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hetsim.errors import PlatformError, UsageError, nearest
from hetsim.fitting.chips import Chips, Datasheet, peak_of
from hetsim.fitting.points import Points, Series
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.files.complaints import read_file
from hetsim.hardware.files.device_schema import DeviceModel
from hetsim.hardware.spec import DeviceSpec


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
    datasheet : Datasheet
        By the device's own file.
    """

    device: str
    precision: str
    kin: str
    series: Series | None
    datasheet: Datasheet


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
        spec = model.to_spec(path.stem)
        for precision, told in sorted(model.measured.items()):
            where = f"devices/{path.name}: measured.{precision}"
            if not points.kin(told.kin):
                kin = sorted({series.kin for series in points.series})
                raise PlatformError(
                    f"no rows are of '{told.kin}'", where=where, hint=nearest(told.kin, kin)
                )
            series = None
            if told.chip is not None:
                asked = {name: str(value) for name, value in told.where.items()}
                series = picked(points, told.kin, chips.name(told.chip), asked, where)
            found.append(Asked(path.stem, precision, told.kin, series, _sheet(spec, precision)))
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


def with_catalog(chips: Chips, asks: list[Asked]) -> dict[Series, Datasheet]:
    """Return the datasheets that devices of the catalog give the series they stand on."""
    found: dict[Series, Datasheet] = {}
    for asked in asks:
        if asked.series is not None and chips.datasheet(asked.series) == Datasheet():
            found.setdefault(asked.series, asked.datasheet)
    return found


def _sheet(spec: DeviceSpec, precision: str) -> Datasheet:
    if not spec.flops_per_s:
        raise UsageError(f"'{spec.name}' has no peak", hint="state it under 'peak_tflops'")
    return Datasheet(peak_of(spec.flops_per_s, precision), spec.bytes_per_s)
