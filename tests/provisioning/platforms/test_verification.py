"""Certificates of what is recommended hold, and none with one claim changed.

What is no certificate is said to be none, in bounded time and memory.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from certificate_parts import certified, left, of_drawn, of_question
from falsified import all_rejected, packed
from hetsim.errors import CertificateRefuted, InvalidInput
from hetsim.provisioning.platforms import certificate
from hetsim.provisioning.platforms.verification import verify
from random_questions import with_losses
from sweeps import sweep

FEW = 1 << 12
"""Drawn requests, which tell little and are soon played."""


@sweep("seed", quick=[11, 28], full=range(400))
def test_what_is_recommended_holds(seed: int, tmp_path: Path) -> None:
    given = certified(seed)
    held = verify(left(given, tmp_path))
    assert held.bounds == len(given["bounds"])
    assert held.runs == sum(len(one["runs"]) for one in given["played"])
    assert held.undecided == 0
    assert held.before >= held.tried


@sweep("seed", quick=[1, 13], full=range(200))
def test_what_is_recommended_without_devices_holds(seed: int, tmp_path: Path) -> None:
    given = of_question(with_losses(seed))
    assert verify(left(given, tmp_path)).bounds == len(given["bounds"])


@sweep("seed", quick=[13], full=range(60))
def test_falsified_ones_without_devices_are_rejected(seed: int, tmp_path: Path) -> None:
    path = left(of_question(with_losses(seed)), tmp_path)
    all_rejected(path.read_text(), path, seed)


@sweep("seed", quick=[3], full=range(40))
def test_what_is_recommended_for_drawn_requests_holds(seed: int, tmp_path: Path) -> None:
    given = of_drawn(seed)
    assert verify(left(given, tmp_path)).bounds == len(given["bounds"])


@sweep("seed", quick=[3], full=range(12))
def test_falsified_ones_of_drawn_requests_are_rejected(seed: int, tmp_path: Path) -> None:
    path = left(of_drawn(seed, FEW if seed == 3 else 1 << 15), tmp_path)
    all_rejected(path.read_text(), path, seed)


@sweep("seed", quick=[1], full=range(60))
def test_falsified_ones_are_rejected(seed: int, tmp_path: Path) -> None:
    path = left(certified(seed), tmp_path)
    all_rejected(path.read_text(), path, seed)


@pytest.mark.parametrize("times", [1 / 10, 1 / 3, 3, 10])
def test_rates_that_are_not_those_of_the_arrivals_are_refused(tmp_path: Path, times: float) -> None:
    given = of_drawn(3, FEW)
    held = verify(left(given, tmp_path))
    (stream, *_) = held.checked
    rate = sum(one["rate_per_s"] for one in given["question"]["asks"] if not one["stream"])
    assert f"{rate:.6g} requests a second" in stream
    for one in given["question"]["asks"]:
        one["rate_per_s"] *= times
    with pytest.raises(CertificateRefuted, match=r"rate_per_s: .* a second, and the .* come at"):
        verify(left(given, tmp_path))


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    given = certified(2)
    bomb = base64.b64encode(zlib.compress(bytes(1 << 26), 9)).decode()
    given["arrivals"]["time_s"] = bomb
    with pytest.raises(InvalidInput, match="/arrivals/time_s: not"):
        verify(left(given, tmp_path))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "nested too deep"),
        ("null", "no certificate: /: "),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": 1e999}', "1e999 is not a number"),
        ('{"a": ' + "9" * 5000 + "}", "no JSON"),
        ("{" + ",".join(f'"{k}":0' for k in range(5000)) + "}", "keys in one object"),
        ("\xff", "no JSON"),
        ("{}", "/certificate: Field required"),
    ],
)
def test_what_is_no_certificate_is_said_to_be_none(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidInput, match=says):
        verify(path)


def test_a_larger_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate, "MOST_BYTES", 19)
    with pytest.raises(InvalidInput, match="larger than 19 bytes"):
        verify(left({"certificate": "x"}, tmp_path))


def test_what_is_short_and_means_much_is_refused(tmp_path: Path) -> None:
    given = certified(2)
    # As many requests as fit a file, for each of its runs.
    many = 1_000_000
    given["arrivals"] = {
        "pieces": [many],
        "time_s": packed(np.arange(many) * 1e-3, "<f8"),
        "ask": packed(np.zeros(many), "<u2"),
    }
    given["bounds"] = []
    for one in given["played"]:
        one["bounds"] = 0
    with pytest.raises(InvalidInput, match="task events"):
        verify(left(given, tmp_path), budget=many)


def test_a_key_is_told_on_one_line(tmp_path: Path) -> None:
    given = certified(2)
    given["question"]["a\nb" + "x" * 10_000] = 1
    with pytest.raises(InvalidInput) as told:
        verify(left(given, tmp_path))
    assert len(str(told.value)) < 300 + len(str(tmp_path))
    assert "\n" not in str(told.value)


WRONG: list[Any] = [
    None, True, -1, 0, 1, 2, 10**6, 1 << 62, 10**30, -0.5, 0.5, 1e-300, 1e300, "", "x", [], [0], {}
]  # fmt: skip


@sweep("seed", quick=[5], full=range(60))
def test_anything_in_any_place_is_told_in_one_line(seed: int, tmp_path: Path) -> None:
    text = json.dumps(of_question(with_losses(seed)) if seed % 3 == 1 else certified(seed))
    rng = np.random.default_rng([seed, 99])
    everywhere = places(json.loads(text))
    for _ in range(60):
        given = json.loads(text)
        *above, last = everywhere[rng.integers(len(everywhere))]
        where = given
        for key in above:
            where = where[key]
        how = rng.integers(3)
        if how == 0:
            del where[last]
        elif how == 1 and isinstance(where, list):
            where.insert(last, where[last])
        else:
            where[last] = WRONG[rng.integers(len(WRONG))]
        told = said(left(given, tmp_path))
        assert "\n" not in told
        assert told.startswith("certificate holds") or " /" in told, told


def said(path: Path) -> str:
    try:
        return str(verify(path))
    except (CertificateRefuted, InvalidInput) as told:
        return str(told)


def places(value: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Of everything in a certificate."""
    found = [where] if where else []
    inside = value.items() if isinstance(value, dict) else []
    inside = enumerate(value) if isinstance(value, list) else inside
    for key, each in inside:
        found += places(each, (*where, key))
    return found
