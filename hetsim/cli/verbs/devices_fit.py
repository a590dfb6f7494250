"""``hetsim devices fit``: the catalog's figures of kernels, out of published measurements."""

from __future__ import annotations

from pathlib import Path

import click

from hetsim.cli.given_once import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.output import common_options, json_option


@click.command("fit", cls=Command)
@click.argument("names", metavar="[DEVICE]...", nargs=-1)
@click.option(
    "--measured",
    "measured",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The measurements, as data/measured of a checkout, the default.",
)
@click.option(
    "--out",
    "-o",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the files go instead of devices/fitted.",
)
@json_option
@common_options
def fit_devices(
    names: tuple[str, ...], measured: Path | None, out: Path | None, as_json: bool
) -> None:
    """Fit what kernels take on the catalog's devices to published measurements of them.

    Of all that name measurements, or of each DEVICE alone. Writes devices/fitted/DEVICE.yaml, the
    same bytes for the same measurements, and prints how far predictions were from what was left
    out. Minutes for the whole catalog. All of a checkout also writes data/fidelity, and names
    the points of it that are predicted worse than before.
    """
    from hetsim.errors import UsageError, nearest
    from hetsim.fidelity.writing import write_judged
    from hetsim.fitting.figures import figures_of, record_of
    from hetsim.fitting.kin_fits import Measurements
    from hetsim.fitting.measured import measured_folder
    from hetsim.fitting.writing import write_fitted
    from hetsim.hardware.files.catalog_files import catalog_folder
    from hetsim.hardware.kernel_figures import KernelFigures
    from hetsim.reporting.tables.fitted import fitted_record, fitted_report

    invocation = current()
    measurements = Measurements.read(measured_folder(measured))
    known = sorted({asked.device for asked in measurements.asks})
    for name in names:
        if name not in known:
            raise UsageError(
                f"no device '{name}' of the catalog names measurements", hint=nearest(name, known)
            )
    figures: dict[str, list[tuple[str, KernelFigures]]] = {}
    with invocation.progress("fitting") as step:
        wanted = [one for one in measurements.asks if not names or one.device in names]
        for at, asked in enumerate(wanted):
            step(asked.kin, share=at / len(wanted))
            found = asked.runtime, figures_of(measurements, asked)
            figures.setdefault(asked.device, []).append(found)
    folder = out or catalog_folder() / "fitted"
    kins = sorted({one.kin for found in figures.values() for _, one in found})
    records = [record_of(measurements, kin) for kin in kins]
    changed = write_fitted(folder, figures, records, all_of_them=not names and out is None)
    total = len(figures) + len(kins)
    invocation.note(f"{len(changed)} of {total} files in {folder} changed")
    if not names and out is None and measured is None:
        with invocation.progress("judging"):
            lost = write_judged(measurements)
        for line in ("worse than before:", *lost.text().splitlines()) if lost else ():
            invocation.note(line)
    if as_json:
        invocation.show_json(fitted_record(figures))
    else:
        invocation.show(fitted_report(figures))
