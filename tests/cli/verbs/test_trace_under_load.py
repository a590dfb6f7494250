"""Requests under load are drawn one by one, as what became of them says."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from cli_calls import call
from oracles.trace_import import Imported, Span, imported
from sweeps import sweep

Words = tuple[object, ...]
Drawn = Callable[..., Imported]


@pytest.fixture
def drawn(dynamic_model: Path, platform: Path, tmp_path: Path) -> Drawn:
    """Simulate the tiny model under load with these words, and read its trace."""

    def simulated(*words: object) -> Imported:
        path = tmp_path / "trace.json"
        result = call(
            "simulate", dynamic_model, "--platform", platform, "--strategy", "single:cpu",
            "--trace", path, *words,
        )  # fmt: skip
        assert result.exit_code in (0, 5, 6), result.stderr
        assert f"to {path}; open it" in result.stderr
        found = imported(path.read_text())
        assert found.complaints == []
        return found

    return simulated


def requests_of(found: Imported) -> list[Span]:
    spans = found.of("requests of requests")
    return [span for span in spans if span.name.startswith("request ")]


def counter(found: Imported, name: str) -> list[tuple[int, float]]:
    [values] = [values for (_, named), values in found.counters.items() if named == name]
    return values


def integral(values: list[tuple[int, float]]) -> float:
    return sum(value * (then - at) for (at, value), (then, _) in pairwise(values))


ALONE: Words = ("--rate", 3000, "--dim", "batch=1")
IN_BATCHES: Words = ("--rate", 20000, "--batching", "4:500us", "--instances", 2)


@sweep("words", quick=[IN_BATCHES], full=[ALONE, IN_BATCHES])
def test_each_request_waits_and_is_served(drawn: Drawn, words: Words) -> None:
    found = drawn(*words, "--requests", 300)
    spans = requests_of(found)
    assert sorted(span.args["request"] for span in spans) == list(range(300))
    parts = [s for s in found.of("requests of requests") if not s.name.startswith("request ")]
    served = [span for span in parts if span.name == "served"]
    waited = [span for span in parts if span.name == "waiting"]
    assert len(served) == 300
    # Whoever waits is then served, to the end of the request.
    ends = {span.end_ns for span in spans}
    assert {span.end_ns for span in served} == ends
    assert {span.end_ns for span in waited} <= {span.start_ns for span in served}
    total = sum(span.end_ns - span.start_ns for span in spans)
    assert total == sum(span.end_ns - span.start_ns for span in parts)
    under_way = integral(counter(found, "served requests"))
    assert under_way == sum(span.end_ns - span.start_ns for span in served)
    waits = sum(span.end_ns - span.start_ns for span in waited)
    assert waits == (integral(counter(found, "waiting requests")) if waits else 0)
    model = next(name for name in found.processes.values() if name.startswith("model "))
    batches = found.of(model)
    assert sorted(k for batch in batches for k in batch.args["requests"]) == list(range(300))
    assert len(found.arrows) == 300
    for tail, head, _ in found.arrows:
        assert (tail.name, tail.start_ns, tail.end_ns) == ("served", head.start_ns, head.end_ns)


def test_who_is_rejected_and_what_was_down_is_drawn(drawn: Drawn) -> None:
    found = drawn(*ALONE, "--requests", 300, "--inject", "kill cpu at 20ms for 10ms")
    [down] = found.of("devices that were down")
    assert (down.name, down.start_ns, down.end_ns) == ("kill", 20_000_000, 30_000_000)
    assert len(requests_of(found)) == 300


def test_of_many_requests_the_first_are_drawn(
    drawn: Drawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hetsim.cli.under_load.KEPT", 50)
    spans = requests_of(drawn(*ALONE, "--requests", 300))
    spans.sort(key=lambda span: span.args["request"])
    assert [span.args["request"] for span in spans] == list(range(50))
    assert all(one.start_ns <= other.start_ns for one, other in pairwise(spans))
