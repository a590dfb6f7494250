"""Properties of devices: readable keys, settable keys, and their allowed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetsim.errors import UsageError, nearest
from hetsim.hardware.spec import DeviceSpec
from hetsim.hardware.variants import PRECISIONS

PropertyValue = str | int | bool | tuple[object, ...]
Allowed = tuple[PropertyValue, ...] | range
"""Allowed values of a property: a list, or the integers of a range."""


class PropertyName(str):
    """Property name with its mutability."""

    mutable: bool

    def __new__(cls, name: str, mutable: bool) -> PropertyName:
        """Make the name."""
        made = super().__new__(cls, name)
        made.mutable = mutable
        return made


class Properties:
    """Properties of one device, called `where` in errors.

    Those in `fixed` are read-only; `settable` has the allowed values of the others.
    """

    def __init__(
        self,
        where: str,
        fixed: Mapping[str, PropertyValue],
        settable: Mapping[str, tuple[Allowed, PropertyValue]],
    ) -> None:
        self._where = where
        self._fixed = dict(fixed)
        self._allowed = {key: allowed for key, (allowed, _) in settable.items()}
        self._values = {key: value for key, (_, value) in settable.items()}

    @property
    def names(self) -> tuple[PropertyName, ...]:
        """Return all names, sorted, each with whether it can be set."""
        own = {**dict.fromkeys(self._fixed, False), **dict.fromkeys(self._allowed, True)}
        return tuple(PropertyName(name, own[name]) for name in sorted(own))

    def get(self, key: str) -> PropertyValue:
        """Return a property. Raises UsageError with the nearest name."""
        known = {**self._fixed, **self._values}
        if key not in known:
            raise self._unknown(key)
        return known[key]

    def set(self, key: str, value: object) -> None:
        """Set a property. Raises UsageError if it is unknown or read-only, or the value invalid."""
        self._values[key] = self._checked(key, value)

    def merged(self, config: Mapping[str, object]) -> dict[str, PropertyValue]:
        """Return the settable properties overridden by `config`, without setting them."""
        return {**self._values, **{key: self._checked(key, v) for key, v in config.items()}}

    def _checked(self, key: str, value: object) -> PropertyValue:
        allowed = self._allowed.get(key)
        if allowed is None:
            if key not in self._fixed:
                raise self._unknown(key)
            settable = ", ".join(sorted(self._allowed))
            raise UsageError(f"{key} is read-only", where=self._where, hint=f"settable: {settable}")
        for one in allowed:
            if type(one) is type(value) and one == value:
                return one
        texts = [str(one) for one in allowed]
        hint = f"choose from: {', '.join(texts)}"
        if isinstance(allowed, range):
            hint = f"use a whole number from {allowed[0]} to {allowed[-1]}"
        elif isinstance(value, str):
            hint = nearest(value, texts)
        raise UsageError(f"{key} cannot be {value!r}", where=self._where, hint=hint)

    def _unknown(self, key: str) -> UsageError:
        known = [*self._fixed, *self._allowed]
        return UsageError(f"no property '{key}'", where=self._where, hint=nearest(key, known))


PRECISION = "INFERENCE_PRECISION_HINT"
THREADS = "INFERENCE_NUM_THREADS"
PROFILE = "PERF_COUNT"

MOST_THREADS = 256
"""Maximum threads of a kernel."""

_CAPABILITIES = {"float32": "FP32", "float16": "FP16", "bfloat16": "BF16", "int8": "INT8"}


def default_precision(spec: DeviceSpec) -> str:
    """Return the precision in which a device computes float32."""
    return spec.rounding.get("float32", "float32")


def metrics(spec: DeviceSpec, ids: Sequence[str], *, exports: bool) -> dict[str, PropertyValue]:
    """Return the read-only properties; `ids` are those of all devices of its kind."""
    capabilities = [_CAPABILITIES[t] for t in _CAPABILITIES if t in spec.flops_per_s]
    return {
        "SUPPORTED_PROPERTIES": (),
        "AVAILABLE_DEVICES": tuple(ids),
        "FULL_DEVICE_NAME": spec.full_name,
        "DEVICE_ARCHITECTURE": f"{spec.kind}:{spec.name}",
        "OPTIMIZATION_CAPABILITIES": (*capabilities, *(["EXPORT_IMPORT"] if exports else [])),
        "RANGE_FOR_ASYNC_INFER_REQUESTS": (1, spec.streams, 1),
        "IMPORT_EXPORT_SUPPORT": exports,
        "DEVICE_TOTAL_MEM_SIZE": spec.memory_bytes,
        "DEVICE_FREE_MEM_SIZE": spec.memory_bytes,
    }


def settings(
    name: str, spec: DeviceSpec, ids: Sequence[str]
) -> dict[str, tuple[Allowed, PropertyValue]]:
    """Return the settable properties of the device `name`, with allowed values and defaults."""
    own = name.rpartition(".")[2]
    return {
        "DEVICE_ID": (tuple(ids), own if own in ids else ids[0]),
        "NUM_STREAMS": (range(1, spec.streams + 1), spec.streams),
        "PERFORMANCE_HINT": (("LATENCY", "THROUGHPUT"), "LATENCY"),
        PRECISION: (tuple(sorted({*PRECISIONS, "float32"})), default_precision(spec)),
        THREADS: (range(1, max(MOST_THREADS, spec.threads) + 1), spec.threads),
        PROFILE: ((False, True), False),
    }
