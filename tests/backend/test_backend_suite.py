"""What a plain session passes of the official suite, hetsim's backend passes, however it cuts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.backend.base import BackendRep
from onnx_builders import bits

from hetsim.backend import Split, SplitModel, load, make_backend
from hetsim.execution.ray_session import RaySession
from oracles.onnx_suite import Answer, Judged, exact, imports, side_by_side

SEEDS = range(10)
ON_RAY = 150
A_BATCH = 60
Found = Sequence[Any]


def same_bits(one: Found, other: Found) -> bool:
    return [bits(value) for value in one] == [bits(value) for value in other]


def test_most_of_the_suite_is_there_and_passes_on_a_plain_session(judged: Judged) -> None:
    kinds = set(judged.suite.kinds.values())
    assert kinds == {
        "NodeModel", "RealModel", "SimpleModel", "PyTorchConvertedModel", "PyTorchOperatorModel",
    }  # fmt: skip
    assert {judged.suite.kinds[name] for name in judged.passed} == kinds
    assert len(judged.plain) > 2000
    assert len(judged.passed) > 1400


@pytest.mark.slow
def test_every_node_alone_on_a_random_device(judged: Judged) -> None:
    backend = make_backend(devices=3, seed=5)
    failures = {}
    for name in judged.passed:

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
def test_random_cuts_under_ten_seeds(judged: Judged) -> None:
    failures: dict[str, str] = {}
    cut: list[str] = []
    for name in judged.passed:

        def ten_times(model: onnx.ModelProto, name: str = name) -> BackendRep:
            nodes = len((loaded := load(model)).graph.nodes)
            reference = exact(model)
            if nodes < 2:
                # One subgraph, as with every node alone: there is nothing to cut.
                return reference
            cut.append(name)
            counts = np.random.default_rng(nodes).integers(2, nodes + 1, len(SEEDS))
            prepared = [
                SplitModel(loaded, Split(cuts=int(count), seed=seed))
                for seed, count in zip(SEEDS, counts, strict=True)
            ]
            assert [len(each.plan.groups) for each in prepared] == counts.tolist()

            def answer(inputs: list[Any]) -> Found:
                expected = reference.run(inputs)
                for seed, each in zip(SEEDS, prepared, strict=True):
                    if not same_bits(each.run(inputs), expected):
                        failures[name] = f"other bits than a plain session, seed {seed}"
                return expected

            return Answer(answer)

        if reason := judged.suite.attempt(name, ten_times):
            failures[name] = reason
    assert failures == {}
    assert len(cut) > 350


@pytest.mark.slow
def test_a_sample_on_ray(judged: Judged, ray_session: RaySession) -> None:
    """Tests of one operator set run as one model, side by side, so that actors start once."""
    backend = make_backend(devices=3, seed=7, executor="ray")
    failures: dict[str, str] = {}
    count = 0
    for names in batches(judged):
        models = {name: recorded(judged, name) for name in names}
        whole = side_by_side({name: model for name, (model, _) in models.items()})
        given = {
            f"{name}/{value.name}": array
            for name, (model, inputs) in models.items()
            for value, array in zip(_required(model), inputs, strict=True)
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
            count += 1
    assert failures == {}
    assert count >= ON_RAY


def batches(judged: Judged) -> list[list[str]]:
    """Tests of several nodes by operator set, the largest sets first, until there are enough.

    The large models of the suite are left out: they are in the zoo, whose models run on Ray in
    tests of their own.
    """
    by_imports: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for name in sorted(judged.passed):
        if judged.suite.kinds[name] == "RealModel":
            continue
        model, inputs = recorded(judged, name)
        if len(model.graph.node) > 1 and len(_required(model)) == len(inputs):
            by_imports.setdefault(imports(model), []).append(name)
    found: list[list[str]] = []
    for names in sorted(by_imports.values(), key=lambda names: (-len(names), names)):
        if sum(map(len, found)) < ON_RAY:
            found.append(names[:A_BATCH])
    return found


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


def _required(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    stored = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in stored]
