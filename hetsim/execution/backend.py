"""hetsim as an ONNX backend: a model split over like devices, and run by an executor.

Follows ``onnx.backend.base``, so that whatever drives an ONNX backend, its official test suite
among it, can drive a partitioned model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep, namedtupledict

from hetsim.base import checks
from hetsim.errors import ModelError, RequestError, UsageError, nearest
from hetsim.execution.backend_cuts import Split, split
from hetsim.execution.backend_single_node import model_of_node, present
from hetsim.execution.run import run
from hetsim.graph.loading import model_of
from hetsim.graph.model import Model
from hetsim.graph.reading.arrays import plain

__all__ = [
    "HetsimBackend",
    "Split",
    "SplitModel",
    "is_compatible",
    "load",
    "make_backend",
    "prepare",
    "run_model",
    "run_node",
    "split",
    "supports_device",
]

_TOLERANCES = ("rtol", "atol")
"""What the suite's runner passes on for its own comparison."""


class SplitModel(BackendRep):
    """A split model, ready to run.

    Attributes
    ----------
    plan : Plan
    """

    def __init__(self, model: Model, how: Split) -> None:
        self.plan = split(model, how)
        self._model = model
        self._how = how

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs, in the model's order.

        Parameters
        ----------
        inputs : sequence, mapping or array
            By position among the inputs that have no stored value, by name, or the only one.

        Raises
        ------
        RequestError
            Where they do not fit the model's inputs.
        ExecutionError
            Where a device fails.
        """
        for name in kwargs:
            raise UsageError(
                f"there is no option '{name}' of a run", hint="give it where the model is prepared"
            )
        done = run(
            self.plan,
            _by_name(self._model, inputs),
            executor=self._how.executor,
            address=self._how.address,
            timeout_s=self._how.timeout_s,
            verify=False,
        )
        return tuple(done.outputs.values())


def _by_name(model: Model, inputs: Any) -> dict[str, Any]:
    names = model.graph.inputs
    if isinstance(inputs, Mapping):
        given = dict(inputs)
    else:
        if not isinstance(inputs, np.ndarray):
            checks.sequence()(inputs, "inputs")
        values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        if len(values) != len(names):
            raise RequestError(
                f"{len(values)} values for {len(names)} inputs",
                where=model.source,
                hint=f"give, in this order: {', '.join(names)}" if names else "give none",
            )
        given = dict(zip(names, values, strict=True))
    return {name: _array(value) for name, value in given.items()}


def _array(value: Any) -> Any:
    return plain(np.asarray(value) if isinstance(value, np.generic) else value)


class HetsimBackend(Backend):
    """Runs ONNX models in pieces on like devices; see ``Split`` for the options.

    Every method takes an option as a keyword, which overrides that of the class.
    """

    how: ClassVar[Split] = Split()

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> SplitModel:
        """Return `model`, split. Optimises nothing: every node of the file stays a node.

        Raises
        ------
        UsageError
            Where an option or the device does not exist.
        ModelError
            Where ONNX Runtime does not read the model; it says why.
        """
        how = cls._how(device, kwargs)
        return SplitModel(load(model), how)

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether `model` can be prepared. Raises UsageError as `prepare` does."""
        how = cls._how(device, kwargs)
        try:
            SplitModel(load(model), how)
        except ModelError:
            return False
        return True

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one node, and return its outputs as a named tuple.

        `opset_version` (a keyword) says by which version of the operator set, the newest that
        ONNX Runtime reads otherwise; `outputs_info` is not needed.
        """
        version = kwargs.pop("opset_version", None)
        if not isinstance(inputs, np.ndarray):
            checks.sequence()(inputs, "inputs")
        values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        proto = model_of_node(node, [_array(value) for value in values], version)
        found = cls.prepare(proto, device, **kwargs).run(
            dict(zip(present(node.input), map(_array, values), strict=True))
        )
        named: tuple[Any, ...] = namedtupledict("Outputs", present(node.output))(*found)
        return named

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether `device` is a CPU: ``CPU`` or ``CPU:N``."""
        return isinstance(device, str) and device.partition(":")[0] == "CPU"

    @classmethod
    def _how(cls, device: str, kwargs: Mapping[str, Any]) -> Split:
        checks.text(device, "device")
        if not cls.supports_device(device):
            raise UsageError(f"there is no device '{device}'", hint="choose 'CPU'")
        return _options(cls.how, {name: v for name, v in kwargs.items() if name not in _TOLERANCES})


def make_backend(**options: Any) -> type[HetsimBackend]:
    """Return a backend class whose models are split by `options`, the fields of ``Split``.

    Raises UsageError where one does not exist or has no such value.
    """
    return type("HetsimBackend", (HetsimBackend,), {"how": _options(Split(), options)})


def _options(base: Split, options: Mapping[str, Any]) -> Split:
    known = [entry.name for entry in fields(Split)]
    for name in options:
        if name not in known:
            raise UsageError(f"there is no option '{name}'", hint=nearest(name, known))
    return replace(base, **options) if options else base


def load(proto: onnx.ModelProto) -> Model:
    """Return the model as the backend splits it: each node of the file that counts, as it is."""
    checks.instance("onnx:ModelProto")(proto, "model")
    return model_of(proto, name=proto.graph.name or "model", canonical="none", measure=False)


prepare = HetsimBackend.prepare
run_model = HetsimBackend.run_model
run_node = HetsimBackend.run_node
supports_device = HetsimBackend.supports_device
is_compatible = HetsimBackend.is_compatible
