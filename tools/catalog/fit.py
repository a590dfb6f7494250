"""``python -m catalog.fit``: the catalog's figures of kernels, out of published measurements.

Writes ``devices/fitted``, the same bytes for the same measurements, and ``data/fidelity``, and
names the points of it that are predicted worse than before. Minutes for the whole catalog.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from textwrap import indent

import numpy as np

from catalog.fidelity.writing import write_judged
from catalog.judging import errors_of
from catalog.kin_fits import Asked, FittedKin, Measurements
from catalog.measured import measured_folder
from catalog.points import runtime_of
from catalog.runtimes import gathered, write_factors
from catalog.widths import Bases
from hetsim.core.files import whole_file
from hetsim.core.units import significant
from hetsim.errors import HetsimError, UsageError, nearest
from hetsim.hardware.catalog import load_device, load_kin
from hetsim.hardware.datasheet import COVARIATES, centred_covariates
from hetsim.hardware.datasheet import covariates as covariates_of
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.kernel_figures import PARAMETERS, Basis, FigureError, KernelFigures
from hetsim.hardware.kin import TRAITS, ByDatasheet, Kin, KnownNetwork, Limits

_SHARES = ("median", "p90", "spread", "sd", "common", "unseen_median", "unseen_p90")
"""Fields of an error that have as many digits as there are worth writing."""


def figures_of(measurements: Measurements, bases: Bases, asked: Asked) -> KernelFigures:
    """Return what was fitted for one precision of a device."""
    kin = measurements.fitted(asked.kin)
    data, fit = kin.data, kin.fit
    if asked.series is None:
        covariates = np.array(centred_covariates(data.middle, covariates_of(asked.datasheet)))
        limits = Limits.of(asked.flops_per_s, asked.bytes_per_s)
        theta, status = limits.within(fit.expected(covariates)[None, :])[0], "prior"
        source = f"the kin's mean at the device's datasheet; {_of_kin(kin)}"
    else:
        index = data.series.index(asked.series)
        theta, status = fit.theta(data.covariates)[index], "fitted"
        points = [data.points[at] for at in np.flatnonzero(data.owner == index)]
        networks = len({point.network for point in points})
        rows = sum(point.rows for point in points)
        source = f"{rows} rows of {networks} networks on {asked.series}; {_of_kin(kin)}"
    return KernelFigures(
        precision=asked.precision,
        values=tuple(
            parameter.si(significant(parameter.in_key_unit(float(np.exp(log)))))
            for parameter, log in zip(PARAMETERS, theta, strict=True)
        ),
        provenance={parameter.name: (status, source) for parameter in PARAMETERS},
        kin=asked.kin,
        runtime=runtime_of(asked.kin),
        source=source,
        errors=tuple(_rounded(error) for error in errors_of(kin, asked.series)),
        basis=bases.basis(asked.kin, asked.series),
    )


def record_of(measurements: Measurements, bases: Bases, name: str) -> Kin:
    """Return what goes to the file of the kin called `name`."""
    kin = measurements.fitted(name)
    data, slopes = kin.data, kin.fit.slopes
    told = ByDatasheet(
        precision=data.series[0].precision,
        middle=_not_zero(COVARIATES, data.middle),
        slopes={
            covariate: found
            for covariate, row in zip(COVARIATES, slopes, strict=True)
            if (found := _not_zero([one.name for one in PARAMETERS], row))
        },
        errors=tuple(_rounded(error) for error in errors_of(kin, None)),
        basis=bases.basis(name, None),
    )
    return replace(measurements.record(name), by_datasheet=told)


def _not_zero(names: Iterable[str], values: Iterable[float]) -> dict[str, float]:
    """Return those that four digits behind the point tell from nothing."""
    rounded = zip(names, (round(float(value), 4) for value in values), strict=True)
    return {name: value for name, value in rounded if value}


def _of_kin(kin: FittedKin) -> str:
    chips = len({series.chip for series in kin.data.series})
    networks = len({network for network, _ in kin.data.keys})
    return f"kin: {chips} chips, {networks} networks"


def _rounded(error: FigureError) -> FigureError:
    shown = {
        name: significant(value) for name in _SHARES if (value := getattr(error, name)) is not None
    }
    return FigureError(**{**asdict(error), **shown})


_HEADER = """\
# What kernels take on {device}. Written by `make fit` out of data/measured and of what
# devices/{device}.yaml says under `measured`: change those, never this file.
kernels:
"""


_MEASURED = "data/measured: "
"""What the source of figures begins with."""

Fitted = tuple[str, KernelFigures]
"""Figures of a device with their runtime; empty: the one that its file names first."""


def fitted_text(device: str, figures: Iterable[Fitted]) -> str:
    """Return the file of ``devices/fitted`` for the catalog's `device`."""
    by_runtime: dict[str, list[KernelFigures]] = {"": []}
    for runtime, one in figures:
        by_runtime.setdefault(runtime, []).append(one)
    text = _HEADER.format(device=device) + "".join(map(_precision, by_runtime.pop("")))
    if by_runtime:
        text += "runtimes:\n"
    for runtime, found in by_runtime.items():
        text += f"  {runtime}:\n    kernels:\n" + indent("".join(map(_precision, found)), " " * 4)
    return text


def kin_text(kin: Kin) -> str:
    """Return the file of ``devices/fitted/kin`` for a kin."""
    lines = [
        f"# What devices of {kin.name} have in common. Written by `make fit`.",
        f"runtime: {_quoted(kin.runtime)}",
        f"source: {_quoted(kin.source)}",
        f"activation_bytes: {kin.activation_bytes:g}",
        f"weight_bytes: {kin.weight_bytes:g}",
        "mean:",
        "  value:",
    ]
    for parameter, value in zip(PARAMETERS, kin.mean, strict=True):
        lines.append(f"    {parameter.name}: {parameter.in_key_unit(value):.4g}")
    lines += ["  status: fitted", f"  source: {_quoted(kin.source)}", "likeness:"]
    for name in ("sd", "shared", "length", "noise"):
        lines.append(f"  {name}: {_float(getattr(kin, name))}")
    lines.append(f"  # Name, batch, devices, log of measured over predicted; {', '.join(TRAITS)};")
    lines.append("  # where the batch is not 1, those of one sample.")
    lines.append("  networks: |")
    lines += [_network(one, f"{one.devices}") for one in kin.networks]
    if kin.heard:
        lines.append(
            "  # The same of networks that others ran, with the share of the variance they tell."
        )
        lines.append("  heard: |")
        lines += [_network(one.network, f"{one.share:.4g}") for one in kin.heard]
    if kin.by_datasheet is not None:
        lines += _by_datasheet(kin.by_datasheet)
    return "\n".join(lines) + "\n"


def _by_datasheet(told: ByDatasheet) -> list[str]:
    lines = [
        "# Of a device that nobody measured: the mean, moved by how far its datasheet is off.",
        "by_datasheet:",
        f"  precision: {told.precision}",
        f"  middle: {_flow(told.middle)}",
        "  slopes:",
    ]
    lines += [f"    {name}: {_flow(slopes)}" for name, slopes in told.slopes.items()]
    if not told.slopes:
        lines[-1] += " {}"
    if told.errors:
        lines += ["  errors:", *(f"    - {_error(error)}" for error in told.errors)]
    if told.basis is not None:
        lines += [f"  {line}" for line in _basis(told.basis)]
    return lines


def _basis(basis: Basis) -> list[str]:
    lines = ["rests_on:"]
    for whose, one in (("device", basis.device), ("family", basis.family)):
        if one is not None:
            counts = ", ".join(f"{name}: {number}" for name, number in asdict(one).items())
            lines.append(f"  {whose}: {{{counts}}}")
    return [*lines, f"  elsewhere: {_float(basis.elsewhere)}"]


def _flow(values: Mapping[str, float]) -> str:
    return "{" + ", ".join(f"{name}: {value:.4g}" for name, value in values.items()) + "}"


def write_fitted(
    folder: Path,
    figures: Mapping[str, Iterable[Fitted]],
    kins: Iterable[Kin],
    all_of_them: bool = True,
) -> list[Path]:
    """Write a file for each device and kin into `folder`; return those that changed."""
    (folder / "kin").mkdir(parents=True, exist_ok=True)
    texts = {folder / f"{device}.yaml": fitted_text(device, of) for device, of in figures.items()}
    texts |= {folder / "kin" / f"{kin.name}.yaml": kin_text(kin) for kin in kins}
    changed = []
    if all_of_them:
        for path in sorted({*folder.glob("*.yaml"), *folder.glob("kin/*.yaml")} - set(texts)):
            path.unlink()
            changed.append(path)
    for path, text in texts.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            with whole_file(path) as draft:
                draft.write(text.encode("utf-8"))
            changed.append(path)
    return changed


def _precision(figures: KernelFigures) -> str:
    status, source = next(iter(figures.provenance.values()))
    lines = [
        f"  {figures.precision}:",
        f"    kin: {figures.kin}",
        f"    runtime: {_quoted(figures.runtime)}",
        f"    source: {_quoted(_MEASURED + figures.source)}",
        "    parameters:",
        "      value:",
    ]
    for parameter, value in zip(PARAMETERS, figures.values, strict=True):
        shown = significant(parameter.in_key_unit(value))
        lines.append(f"        {parameter.name}: {shown:.4g}")
    lines += [f"      status: {status}", f"      source: {_quoted(source)}"]
    if figures.errors:
        lines.append("    errors:")
        lines += [f"      - {_error(error)}" for error in figures.errors]
    if figures.basis is not None:
        lines += [" " * 4 + line for line in _basis(figures.basis)]
    return "\n".join(lines) + "\n"


def _network(one: KnownNetwork, devices: str) -> str:
    told = one.traits if one.batch == 1 else one.traits + one.alone
    traits = " ".join(f"{trait:.4g}" for trait in told)
    return f"    {one.name} {one.batch} {devices} {one.effect:.4g} {traits}"


def _error(error: FigureError) -> str:
    parts = [
        f'batch: "{error.batch}"',
        f"networks: {error.networks}",
        f"rows: {error.rows}",
        f"median: {error.median:.4g}",
        f"p90: {error.p90:.4g}",
    ]
    if error.unseen_median is not None and error.unseen_p90 is not None:
        parts.append(f"unseen_median: {error.unseen_median:.4g}")
        parts.append(f"unseen_p90: {error.unseen_p90:.4g}")
    if error.spread is not None:
        parts.append(f"spread: {error.spread:.4g}")
    parts += [f"sd: {error.sd:.4g}", f"common: {error.common:.4g}"]
    return "{" + ", ".join(parts) + "}"


def _float(value: float) -> str:
    text = f"{value:.4g}"
    return text if any(mark in text for mark in ".en") else f"{text}.0"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def main(given: list[str] | None = None) -> int:
    """Fit; return the exit code: 0 written, 3 where the measurements or a device are missing."""
    parser = argparse.ArgumentParser(prog="python -m catalog.fit", description=__doc__)
    parser.add_argument(
        "names", metavar="DEVICE", nargs="*", help="devices to fit; without, all, and data/fidelity"
    )
    parser.add_argument(
        "--measured", type=Path, help="measurements; data/measured of this checkout"
    )
    parser.add_argument("--out", type=Path, help="folder to write to instead of devices/fitted")
    parser.add_argument(
        "--rests", action="store_true", help="write what the figures rest on, and fit nothing"
    )
    asked = parser.parse_args(given)
    try:
        if asked.rests:
            rests(asked.measured)
        else:
            fit(asked.names, asked.measured, asked.out)
    except HetsimError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


def fit(names: list[str], measured: Path | None, out: Path | None) -> None:
    """Fit devices of the catalog by name, all where none is named, and write their files."""
    measurements = Measurements.read(measured_folder(measured))
    known = sorted({asked.device for asked in measurements.asks})
    for name in names:
        if name not in known:
            raise UsageError(
                f"no device '{name}' of the catalog names measurements", hint=nearest(name, known)
            )
    bases = Bases.of(measurements)
    figures: dict[str, list[Fitted]] = {}
    wanted = [one for one in measurements.asks if not names or one.device in names]
    for at, asked in enumerate(wanted):
        print(f"fitting {at + 1} of {len(wanted)}: {asked.kin}", file=sys.stderr)
        found = asked.runtime, figures_of(measurements, bases, asked)
        figures.setdefault(asked.device, []).append(found)
    folder = out or catalog_folder() / "fitted"
    kins = sorted({one.kin for found in figures.values() for _, one in found})
    records = [record_of(measurements, bases, kin) for kin in kins]
    everything = not names and out is None
    changed = write_fitted(folder, figures, records, all_of_them=everything)
    print(f"{len(changed)} of {len(figures) + len(kins)} files in {folder} changed")
    if everything and measured is None:
        if lost := write_judged(measurements):
            print(f"worse than before:\n{lost.text()}")
        write_factors(gathered(measurements.tables))


def rests(measured: Path | None) -> None:
    """Write what the catalog's figures rest on, for those that are there."""
    measurements = Measurements.read(measured_folder(measured))
    bases = Bases.of(measurements)
    figures: dict[str, list[Fitted]] = {}
    for asked in measurements.asks:
        spec = load_device(asked.device)
        kernels = spec.runtimes[asked.runtime] if asked.runtime else spec.kernels
        found = kernels[asked.precision]
        told = found.source.removeprefix(_MEASURED)
        found = replace(found, source=told, basis=bases.basis(asked.kin, asked.series))
        figures.setdefault(asked.device, []).append((asked.runtime, found))
    kins = []
    for kin in map(load_kin, sorted({asked.kin for asked in measurements.asks})):
        by = kin.by_datasheet
        if by is not None:
            by = replace(by, basis=bases.basis(kin.name, None))
        kins.append(replace(kin, by_datasheet=by))
    changed = write_fitted(catalog_folder() / "fitted", figures, kins)
    print(f"{len(changed)} files changed; sources of a chip differ by {bases.spread:.3f}")


if __name__ == "__main__":
    sys.exit(main())
