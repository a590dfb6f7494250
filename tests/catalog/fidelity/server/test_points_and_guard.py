"""Files of served rates, what the guard says of two of them, and how they are judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from catalog.fidelity.points import Losses
from catalog.fidelity.server.judged import (
    RateErrors,
    anchored,
    by_others,
    each_once,
    naive,
    sizing,
)
from catalog.fidelity.server.points import missed, read_server, server_text
from hetsim.errors import UsageError
from server_builders import served


def test_a_file_says_what_was_written(tmp_path: Path) -> None:
    points = [served("a", 1234.5), served("b", None)]
    points[0] = replace(
        points[0], system=replace(points[0].system, altered=True, alone_s=0.001, alone_of="chip")
    )
    path = tmp_path / "server.csv"
    path.write_text(server_text(reversed(points)))
    assert read_server(path) == points
    path.write_text("other,columns\n1,2\n")
    with pytest.raises(UsageError, match="other columns"):
        read_server(path)
    with pytest.raises(UsageError, match="no points"):
        read_server(tmp_path / "none.csv")


def test_what_was_near_and_is_no_longer_is_named() -> None:
    old = [served("a", 1100), served("b", 1190), served("c", 1300), served("d", 900)]
    new = [served("a", None), served("b", 1250), served("c", 1900)]
    assert missed(old, old) == ()
    lines = missed(old, new)
    assert lines == (
        "resnet50 on a of Somebody, v1.0: no rate",
        "resnet50 on b of Somebody, v1.0: off by +25%, was +19%",
        "resnet50 on d of Somebody, v1.0: no rate",
    )
    lost = Losses((), (), (), lines)
    assert lost
    assert "3 served rates are no longer predicted as near:" in lost.text()


def test_errors_are_shares_of_what_was_measured() -> None:
    points = [served("a", 1100), served("b", 900), served("c", 1300), served("d", None)]
    found = RateErrors.of(points, anchored)
    assert found is not None
    assert (found.count, found.middle) == (3, pytest.approx(1.1))
    assert found.median == pytest.approx(0.1)
    assert found.within_goal == pytest.approx(2 / 3)
    assert RateErrors.of(points[3:], anchored) is None
    assert sizing(points[3:], anchored) is None


def test_a_chip_counts_once() -> None:
    points = [served(str(n), 1500) for n in range(9)] + [served("b", 1000, chip="other")]
    found = each_once(points, anchored)
    assert found is not None
    assert (found.count, found.median) == (2, pytest.approx(0.25))


def test_a_factor_is_fitted_on_others_alone() -> None:
    """Of two submitters each is judged by the other's: the better known does not help itself."""
    points = [served("a", 1200, submitter="A"), served("b", 1500, submitter="B")]
    found = by_others(points, anchored, lambda point: point.system.submitter)
    assert found is not None
    assert found.low == pytest.approx(0.8 + 0.1 * (1.25 - 0.8))
    assert found.high == pytest.approx(1.25 - 0.1 * (1.25 - 0.8))
    assert by_others(points[:1], anchored, lambda point: point.system.submitter) is None


def test_sizing_by_a_rate_that_is_too_high_buys_too_few() -> None:
    found = sizing([served("a", 1000), served("b", 2000)], naive)
    assert found is not None
    # Offline is 1.5 times what is served.
    assert (found.low, found.middle, found.high, found.short) == (67, 67, 67, 1.0)
