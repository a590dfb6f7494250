"""``python -m catalog.fit``: the catalog's figures of kernels, out of published measurements.

Writes ``devices/fitted``, the same bytes for the same measurements, and ``data/fidelity``, and
names the points of it that are predicted worse than before. Minutes for the whole catalog.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from catalog.fidelity.writing import write_judged
from catalog.figures import figures_of, record_of, write_fitted
from catalog.kin_fits import Measurements
from catalog.measured import measured_folder
from hetsim.errors import HetsimError, UsageError, nearest
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.hardware.kernel_figures import KernelFigures


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
    asked = parser.parse_args(given)
    try:
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
    figures: dict[str, list[tuple[str, KernelFigures]]] = {}
    wanted = [one for one in measurements.asks if not names or one.device in names]
    for at, asked in enumerate(wanted):
        print(f"fitting {at + 1} of {len(wanted)}: {asked.kin}", file=sys.stderr)
        found = asked.runtime, figures_of(measurements, asked)
        figures.setdefault(asked.device, []).append(found)
    folder = out or catalog_folder() / "fitted"
    kins = sorted({one.kin for found in figures.values() for _, one in found})
    records = [record_of(measurements, kin) for kin in kins]
    everything = not names and out is None
    changed = write_fitted(folder, figures, records, all_of_them=everything)
    print(f"{len(changed)} of {len(figures) + len(kins)} files in {folder} changed")
    if everything and measured is None and (lost := write_judged(measurements)):
        print(f"worse than before:\n{lost.text()}")


if __name__ == "__main__":
    sys.exit(main())
