"""The files of fidelity: points, served rates, kernel tables, document and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from catalog.fidelity.judged import (
    device_of,
    forget,
    judged_points,
    read_tables,
    tables_bytes,
    with_shipped,
    with_whole,
)
from catalog.fidelity.page import page_text, scatter, strips
from catalog.fidelity.points import FidelityPoint, Losses, grouped, losses, points_text, read_points
from catalog.fidelity.server.points import (
    ServerPoint,
    missed,
    read_server,
    server_systems,
    server_text,
)
from catalog.fidelity.server.rates import predicted
from catalog.kin_fits import Measurements
from catalog.measured import measured_folder, read_rows
from catalog.points import read_chips, read_graphs
from hetsim.core.files import whole_file

CHECKOUT = Path(__file__).parents[3]
POINTS = Path("data/fidelity/points.csv")
SERVER = Path("data/fidelity/server.csv")
TABLES = Path("data/fidelity/tables.npz")
PAGE = Path("docs/fidelity.md")
PICTURES = (Path("docs/fidelity.svg"), Path("docs/fidelity-devices.svg"))


def write_judged(measurements: Measurements) -> Losses:
    """Write points and kernel tables out of fits, by figures that are in the catalog already."""
    points = judged_points(measurements)
    tables = {
        name: measurements.tables.table(f"{name}.onnx")
        for name in sorted({point.network for point in points})
    }
    _write(CHECKOUT / TABLES, tables_bytes(tables))
    old = read_points(CHECKOUT / POINTS) if (CHECKOUT / POINTS).is_file() else []
    kept = {point.key: point for point in old}
    forget()
    points = [
        replace(point, priced_s=was.priced_s, roofline_s=was.roofline_s)
        if (was := kept.get(point.key)) is not None
        else point
        for point in with_shipped(points, tables)
    ]
    lost = losses(old, points)
    _write(CHECKOUT / POINTS, points_text(points).encode())
    return lost


def renew(root: Path = CHECKOUT, accept: bool = False, whole: bool = True) -> Losses:
    """Predict all points of the file and served rates anew, and write document and pictures."""
    old = read_points(root / POINTS)
    tables = read_tables(root / TABLES)
    points = with_shipped(old, tables)
    folder = measured_folder()
    served = predicted(server_systems(read_rows(folder), read_chips(folder)), points, tables)
    lost = losses(old, points)
    if (root / SERVER).is_file():
        lost = replace(lost, unserved=missed(read_server(root / SERVER), served))
    if lost and not accept:
        return lost
    if whole:
        points = with_whole(points, read_graphs(folder), tables)
    _write(root / POINTS, points_text(points).encode())
    _write(root / SERVER, server_text(served).encode())
    write_told(read_points(root / POINTS), read_server(root / SERVER), root)
    return lost


def write_told(
    points: Sequence[FidelityPoint], server: Sequence[ServerPoint], root: Path = CHECKOUT
) -> None:
    """Write the document and its pictures."""
    for path, text in told(points, server).items():
        _write(root / path, text.encode())


def told(points: Sequence[FidelityPoint], server: Sequence[ServerPoint]) -> dict[Path, str]:
    """Return the document and its pictures by path: the same text for the same points."""
    by_kind = grouped(points, lambda point: device_of(point.device).kind)
    ordered = sorted(points, key=lambda p: (device_of(p.device).kind, p.key))
    by_device = grouped(ordered, lambda point: f"{point.device} {point.precision}")
    kinds = {kind: by_kind[kind] for kind in sorted(by_kind)}
    return {
        PAGE: page_text(points, server),
        PICTURES[0]: scatter(kinds),
        PICTURES[1]: strips(by_device),
    }


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as draft:
        draft.write(content)
