"""What a plain session passes of the official suite, hetsim's backend passes, however it cuts.

Each time models that came from PyTorch are cut, and some of them run with each node alone; the
sweep has all tests, also of operators and real models, more seeds, and batches on Ray.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.base import BackendRep

from hetsim.backend import Split, SplitModel, load, make_backend
from hetsim.execution.transports.ray_connection import RayConnection
from onnx_builders import bits
from oracles.onnx_suite import Answer, Judged, exact, required, side_by_side
from sweeps import sweep

EIGHTHS = range(8)
PARTS = range(24)
SEEDS = range(10)
BATCHES = range(3)
A_BATCH = 60
Found = Sequence[Any]


def same_bits(one: Found, other: Found) -> bool:
    return [bits(value) for value in one] == [bits(value) for value in other]


def test_most_of_the_suite_that_was_judged_passes_on_a_plain_session(judged: Judged) -> None:
    assert len(judged.passed) > 0.6 * len(judged.plain)
    assert len(judged.cuttable) > 0.1 * len(judged.passed)


@pytest.mark.sweep
def test_every_kind_of_the_suite_is_there_and_passes(judged: Judged) -> None:
    operators = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    # As many as there are follows from the versions of onnx and of ONNX Runtime.
    assert len(judged.plain) > 9 * len(operators)
    assert len(judged.passed) > 0.8 * len(judged.plain)
    assert len(judged.cuttable) > 0.2 * len(judged.passed)
    kinds = set(judged.suite.kinds.values())
    assert kinds == {
        "NodeModel", "RealModel", "SimpleModel", "PyTorchConvertedModel", "PyTorchOperatorModel",
    }  # fmt: skip
    assert {judged.suite.kinds[name] for name in judged.passed} == kinds


@pytest.mark.slow
@sweep("part", quick=PARTS[::4], full=PARTS)
def test_every_node_alone_on_a_random_device(judged: Judged, part: int) -> None:
    backend = make_backend(devices=3, seed=5)
    failures = {}
    # Neighbours are alike: the same operator on another type, the same model at another size.
    for name in judged.passed[part :: len(PARTS)]:

        def compared(model: onnx.ModelProto, name: str = name) -> BackendRep:
            reference, prepared = exact(model), backend.prepare(model)
            used = {group.device for group in prepared.plan.groups}
            assert len(prepared.plan.groups) == prepared.plan.problem.n
            assert used <= {"cpu.0", "cpu.1", "cpu.2"}

            def answer(inputs: list[Any]) -> Found:
                found = prepared.run(inputs)
                if not same_bits(found, reference.run(inputs)):
                    failures[name] = "other bits than a plain session of the same settings"
                return found

            return Answer(answer)

        if reason := judged.suite.attempt(name, compared):
            failures[name] = reason
    assert failures == {}


@pytest.mark.slow
@sweep("eighth, seed", quick=product(EIGHTHS, SEEDS[:1]), full=product(EIGHTHS, SEEDS))
def test_random_cuts(judged: Judged, eighth: int, seed: int) -> None:
    failures: dict[str, str] = {}
    for name in judged.cuttable[eighth :: len(EIGHTHS)]:

        def compared(model: onnx.ModelProto, name: str = name) -> BackendRep:
            nodes = len((loaded := load(model)).graph.nodes)
            reference = exact(model)
            count = int(np.random.default_rng((seed, nodes)).integers(min(2, nodes), nodes + 1))
            prepared = SplitModel(loaded, Split(cuts=count, seed=seed))
            assert len(prepared.plan.groups) == count

            def answer(inputs: list[Any]) -> Found:
                expected = reference.run(inputs)
                if not same_bits(prepared.run(inputs), expected):
                    failures[name] = "other bits than a plain session"
                return expected

            return Answer(answer)

        if reason := judged.suite.attempt(name, compared):
            failures[name] = reason
    assert failures == {}


@pytest.mark.slow
@sweep("batch", quick=[], full=BATCHES)
def test_a_sample_on_ray(judged: Judged, ray_connection: RayConnection, batch: int) -> None:
    """Tests of one operator set run as one model, side by side, so that actors start once."""
    backend = make_backend(devices=3, seed=7, executor="ray")
    failures: dict[str, str] = {}
    assert len(batches(judged)) == len(BATCHES)
    models = {name: recorded(judged, name) for name in batches(judged)[batch]}
    assert len(models) > 50
    whole = side_by_side({name: model for name, (model, _) in models.items()})
    given = {
        f"{name}/{value.name}": array
        for name, (model, inputs) in models.items()
        for value, array in zip(required(model), inputs, strict=True)
    }
    prepared = backend.prepare(whole)
    assert len({group.device for group in prepared.plan.groups}) == 3
    found = dict(zip((v.name for v in whole.graph.output), prepared.run(given), strict=True))
    for name, (model, inputs) in models.items():
        mine = [found[f"{name}/{value.name}"] for value in model.graph.output]

        if not same_bits(mine, exact(model).run(inputs)):
            failures[name] = "other bits than a plain session of the same settings"
        if reason := judged.suite.attempt(name, lambda _, mine=mine: Answer(lambda _: mine)):
            failures[name] = reason
    assert failures == {}


def batches(judged: Judged) -> list[list[str]]:
    """Tests of several nodes by operator set, the largest sets first, a batch of each.

    The large models of the suite are left out: they are in the zoo, whose models run on Ray in
    tests of their own.
    """
    by_imports: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for name in sorted(judged.cuttable):
        if judged.suite.kinds[name] != "RealModel" and judged.models[name].fed_whole:
            by_imports.setdefault(judged.models[name].imports, []).append(name)
    largest = sorted(by_imports.values(), key=lambda names: (-len(names), names))
    return [names[:A_BATCH] for names in largest[: len(BATCHES)]]


def recorded(judged: Judged, name: str) -> tuple[onnx.ModelProto, list[Any]]:
    """The model and the inputs of a test."""
    seen: list[tuple[onnx.ModelProto, list[Any]]] = []

    def watched(model: onnx.ModelProto) -> BackendRep:
        reference = exact(model)

        def answer(inputs: list[Any]) -> Found:
            seen.append((model, inputs))
            return reference.run(inputs)

        return Answer(answer)

    judged.suite.attempt(name, watched)
    return seen[0]
