"""Devices by the backend in their description: hetsim's own, or another package's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any

import onnx

from hetsim.core.plugins import (
    asked,
    checked_answer,
    is_amount,
    load_plugin,
    plugin_names,
    wrong_type_error,
)
from hetsim.device.device import GROUP as GROUP
from hetsim.device.device import Device, SimulatedDevice
from hetsim.device.support.rules import Support
from hetsim.errors import PluginError, UsageError, nearest
from hetsim.graph.graph import Graph
from hetsim.graph.patterns.matching import Match
from hetsim.graph.reading.extension import Extension
from hetsim.hardware.spec import DeviceSpec, Platform


def watched(device: Device, backend: str) -> Device:
    """Return a plugin's `device` with checked hooks that raise only hetsim's errors."""
    for hook, wanting in _HOOKS.items():
        if getattr(type(device), hook) is not getattr(Device, hook):
            setattr(device, hook, _watched(getattr(device, hook), backend, hook, wanting))
    return device


def _watched(
    method: Callable[..., Any], backend: str, hook: str, wanting: Callable[..., str | None]
) -> Callable[..., Any]:
    @wraps(method)
    def answer(*args: Any, **kwargs: Any) -> Any:
        return checked_answer(
            GROUP,
            backend,
            hook,
            lambda: method(*args, **kwargs),
            lambda given: wanting(given, *args),
        )

    return answer


def _of_query(given: Any, graph: Graph | None = None, *rest: Any) -> str | None:
    if not isinstance(given, Support):
        return "a Support"
    if graph is None:
        return None
    count = len(graph.nodes)
    answers = given.supported
    if not isinstance(answers, tuple) or len(answers) != count:
        return f"a Support with a tuple of {count} answers"
    if not all(isinstance(answer, bool) for answer in answers):
        return "a Support whose answers are True or False"
    if not isinstance(given.reasons, Mapping) or not all(
        isinstance(given.reasons.get(node), str) for node in range(count) if not answers[node]
    ):
        return "a Support with a reason for each node that is not supported"
    if not isinstance(given.composites, tuple) or not all(
        isinstance(match, Match) and all(node in range(count) for node in match.nodes)
        for match in given.composites
    ):
        return "a Support whose composites are a tuple of Match of nodes of the graph"
    members = [node for match in given.composites for node in match.nodes]
    return None if len(members) == len(set(members)) else "a Support of disjoint composites"


def _of_model(given: onnx.ModelProto, *rest: Any) -> str | None:
    return None if isinstance(given, onnx.ModelProto) else "an onnx.ModelProto"


def _of_rounding(given: Any, *rest: Any) -> str | None:
    fits = isinstance(given, Mapping) and all(
        isinstance(word, str) for pair in given.items() for word in pair
    )
    return None if fits else "a mapping of element types"


def _of_kernels(given: Any, *rest: Any) -> str | None:
    fits = all(callable(getattr(given, name, None)) for name in ("run", "cancel"))
    return None if fits else "a CompiledSubgraph"


_HOOKS: Mapping[str, Callable[..., str | None]] = {
    "query_model": _of_query,
    "transform_graph": lambda given, *_: None if isinstance(given, Graph) else "a Graph",
    "transform": _of_model,
    "rounding": _of_rounding,
    **dict.fromkeys(("open", "compile", "import_compiled"), _of_kernels),
    **dict.fromkeys(
        ("add_extension", "identity", "get_property", "set_property"), lambda *given: None
    ),
}
"""Check of each hook's result, which returns a description of the requirement."""


SIMULATED = "simulated"
THREADED = 1e-5
"""Maximum relative error of sums that several threads add in parts."""


def backends() -> tuple[str, ...]:
    """Return the sorted names allowed for ``backend:`` of a device."""
    return tuple(sorted({SIMULATED, *plugin_names(GROUP)}))


def device_class(backend: str) -> type[Device]:
    """Return the class of a backend."""
    if backend == SIMULATED:
        return SimulatedDevice
    try:
        found = load_plugin(GROUP, backend)
    except KeyError:
        raise UsageError(
            f"no device backend '{backend}'",
            hint=f"{nearest(backend, backends())}, or install the package that adds it",
        ) from None
    if not (isinstance(found, type) and issubclass(found, Device)):
        raise PluginError(
            f"'{backend}' of {GROUP} is {found!r}, not a subclass of hetsim.device.device.Device"
        )
    for name in ("tolerance", "simulate", "exports"):
        fact, number = getattr(found, name), name == "tolerance"
        if not (is_amount(fact) if number else isinstance(fact, bool)):
            wanted = "a number from 0 on" if number else "True or False"
            raise wrong_type_error(GROUP, backend, name, fact, wanted)
    return found


def make_device(
    name: str,
    spec: DeviceSpec,
    ids: Sequence[str] = ("0",),
    extensions: Sequence[Extension] = (),
) -> Device:
    """Return the device `name` of `spec`, with those of `extensions` that it supports."""
    kind = device_class(spec.backend)
    if kind is SimulatedDevice:
        device: Device = kind(name, spec, ids)
    else:
        made = asked(GROUP, spec.backend, "__init__", lambda: kind(name, spec, ids))
        device = watched(made, spec.backend)
    for extension in extensions:
        with suppress(UsageError):
            device.add_extension(extension)
    return device


def tolerance(spec: DeviceSpec) -> float:
    """Return the tolerance of its outputs against ONNX Runtime's CPU kernels."""
    own = device_class(spec.backend).tolerance
    return own if spec.threads == 1 else max(own, THREADED)


def platform_devices(platform: Platform, extensions: Sequence[Extension] = ()) -> dict[str, Device]:
    """Return every device of a platform by name; ``gpu.0`` and ``gpu.1`` know each other's ids."""
    ids: dict[str, list[str]] = {}
    for name in platform.devices:
        base, dot, number = name.rpartition(".")
        ids.setdefault(base if dot else name, []).append(number if dot else "0")
    made: dict[str, Device] = {}
    for name, spec in platform.devices.items():
        base, dot, _ = name.rpartition(".")
        known = tuple(ids[base if dot else name])
        made[name] = make_device(name, spec, known, extensions)
    return made
