"""Files broken in drawn ways, a few of each kind, and what once failed; `make fuzz` has more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.judging import Call
from fuzz.kept import cases_in
from fuzz.kinds.registry import KINDS
from fuzz.pool import Pool
from sweeps import sweep

CORPUS = Path(__file__).parent / "corpus"
EACH_TIME, CASES = 3, 300
"""Cases of each kind: each time, and of each seed of the sweep."""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with Pool(tmp_path_factory.mktemp("fuzz")) as made:
        yield made


def faults(pool: Pool, kind: str, seed: int, cases: int) -> dict[str, Call]:
    """Calls that answered wrong, by the words with which `make fuzz` gives the case again."""
    return {
        f"make fuzz KIND={kind} SEED={seed} START={number} COUNT=1 VERBS=1": call
        for number in range(cases)
        for call in pool.play({"kind": kind, "seed": seed, "number": number, "verbs": 1})
        if call.fault
    }


@pytest.mark.parametrize("kind", KINDS)
def test_broken_files_are_refused_in_words(pool: Pool, kind: str) -> None:
    assert faults(pool, kind, 0, EACH_TIME) == {}


@pytest.mark.sweep
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(8))
def test_more_broken_files_are_refused_in_words(pool: Pool, kind: str, seed: int) -> None:
    assert faults(pool, kind, seed, CASES) == {}


@pytest.mark.parametrize("case", [case.name for case in cases_in(CORPUS)])
def test_what_once_failed(pool: Pool, case: str) -> None:
    found = [call for call in pool.play({"folder": str(CORPUS / case)}) if call.fault]
    assert found == []


@sweep("kind", quick=[*KINDS][::4], full=KINDS)
def test_the_same_case_is_the_same_files(pool: Pool, kind: str) -> None:
    seen = []
    for _ in range(2):
        list(pool.play({"kind": kind, "seed": 5, "number": 3, "verbs": 1}))
        seen.append({p.name: p.read_bytes() for p in pool.case.rglob("*") if p.is_file()})
    assert seen[0] == seen[1] != {}
