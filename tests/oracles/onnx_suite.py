"""The official test suite of ONNX backends, and a plain ONNX Runtime session as a backend."""

from __future__ import annotations

import unittest
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import compose
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test import runner

from onnx_builders import open_exactly

Prepare = Callable[[onnx.ModelProto], BackendRep]


class Suite:
    """Every test of the suite for the CPU, with a backend of the caller's choice.

    The runner keeps data of real models below the folder that ``ONNX_HOME`` names. `small`
    leaves these out, and the tests of operators, which take the runner 12 s to make.

    Attributes
    ----------
    kinds : mapping of str to str
        By name of a test: in which part of the suite it is.
    """

    def __init__(self, *, small: bool = False) -> None:
        class Driven(Backend):
            """Passes on to whatever the current attempt brings."""

            chosen: Prepare

            @classmethod
            def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> BackendRep:
                return cls.chosen(model)

            @classmethod
            def supports_device(cls, device: str) -> bool:
                return device == "CPU"

        self._driven = Driven
        with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
            # The suite computes what it expects with numpy, overflows and all.
            warnings.simplefilter("ignore")
            if small:
                load, left = runner.load_model_tests, ("node", "real")
                some = lambda *, kind: [] if kind in left else load(kind=kind)  # noqa: E731
                patch.setattr(runner, "load_model_tests", some)
            items = runner.Runner(Driven)._test_items
        self._tests = {
            name: item.func
            for tests in items.values()
            for name, item in tests.items()
            if name.endswith("_cpu")
        }
        self.kinds = {
            name: kind for kind, tests in items.items() for name in tests if name in self._tests
        }

    def attempt(self, name: str, prepare: Prepare) -> str:
        """Run one test on what `prepare` makes of its model; "" or why it did not pass."""
        self._driven.chosen = staticmethod(prepare)
        try:
            self._tests[name](unittest.TestCase())
        except unittest.SkipTest as skip:
            return f"skipped: {skip}"
        except Exception as error:
            return " ".join(f"{type(error).__name__}: {error}".split())
        return ""


@dataclass(frozen=True)
class Seen:
    """What the model of a test is like.

    Attributes
    ----------
    nodes : int
    imports : tuple of (str, int)
        What models need to have in common to be put side by side.
    fed_whole : bool
        Whether the test gives every input that is not stored in the model.
    """

    nodes: int
    imports: tuple[tuple[str, int], ...]
    fed_whole: bool


@dataclass(frozen=True)
class Judged:
    """The suite, and by test why a plain session does not pass it; "" where it does.

    ``models`` has what was seen of those that it ran.
    """

    suite: Suite
    plain: dict[str, str]
    models: dict[str, Seen]

    @property
    def passed(self) -> list[str]:
        """The tests that a backend made of ONNX Runtime has to pass."""
        return [name for name, reason in self.plain.items() if not reason]

    @property
    def cuttable(self) -> list[str]:
        """Those of them that have several nodes."""
        return [name for name in self.passed if self.models[name].nodes > 1]


def judge(suite: Suite) -> Judged:
    """Run the tests of the suite on plain sessions."""
    reasons: dict[str, str] = {}
    models: dict[str, Seen] = {}
    for name in suite.kinds:

        def watched(model: onnx.ModelProto, name: str = name) -> BackendRep:
            session = plain(model)
            imports = tuple(sorted((entry.domain, entry.version) for entry in model.opset_import))

            def answer(inputs: list[Any]) -> Sequence[Any]:
                whole = len(required(model)) == len(inputs)
                models[name] = Seen(len(model.graph.node), imports, whole)
                return session.run(inputs)

            return Answer(answer)

        reasons[name] = suite.attempt(name, watched)
    return Judged(suite, reasons, models)


class Answer(BackendRep):
    """Gives to every run what a function makes of the inputs."""

    def __init__(self, answer: Callable[[list[Any]], Sequence[Any]]) -> None:
        self._answer = answer

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        # ONNX Runtime takes arrays alone; the suite gives numpy's scalars, too.
        arrays = [np.asarray(v) if isinstance(v, np.generic) else v for v in inputs]
        return tuple(self._answer(arrays))


def plain(model: onnx.ModelProto) -> BackendRep:
    """The model in a session as ONNX Runtime opens it by default, on one thread."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return Answer(lambda inputs: session.run(None, _fed(session, inputs)))


def exact(model: onnx.ModelProto) -> BackendRep:
    """The model in a session whose bits depend on nothing but the graph."""
    session = open_exactly(model, None)
    return Answer(lambda inputs: session.run(None, _fed(session, inputs)))


def _fed(session: ort.InferenceSession, inputs: Sequence[Any]) -> dict[str, Any]:
    return {v.name: given for v, given in zip(session.get_inputs(), inputs, strict=True)}


def required(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """The inputs that are not stored in the model."""
    stored = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in stored]


def side_by_side(models: Mapping[str, onnx.ModelProto]) -> onnx.ModelProto:
    """One model that holds all of `models`, the names of each after its own and a slash."""
    whole = onnx.ModelProto()
    whole.graph.name = "side by side"
    for name, model in models.items():
        apart = compose.add_prefix(model, f"{name}/")
        whole.ir_version = max(whole.ir_version, apart.ir_version)
        if not whole.opset_import:
            whole.opset_import.extend(apart.opset_import)
        for field in ("node", "input", "output", "initializer", "sparse_initializer"):
            getattr(whole.graph, field).extend(getattr(apart.graph, field))
        whole.functions.extend(apart.functions)
    return whole
