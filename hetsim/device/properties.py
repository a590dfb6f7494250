"""Properties of devices: what can be asked, what can be set, and to what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hetsim.errors import UsageError, nearest
from hetsim.hardware.executing import PRECISIONS
from hetsim.hardware.spec import DeviceSpec

PropertyValue = str | int | bool | tuple[object, ...]


class PropertyName(str):
    """A property's name that knows whether the property can be set."""

    mutable: bool

    def __new__(cls, name: str, mutable: bool) -> PropertyName:
        """Make the name."""
        made = super().__new__(cls, name)
        made.mutable = mutable
        return made


@dataclass(frozen=True, slots=True)
class Choice:
    """A property that can be set to one of some values."""

    values: tuple[PropertyValue, ...]

    def check(self, key: str, value: object, where: str) -> PropertyValue:
        """Return `value` where it is allowed. Raises UsageError with the nearest."""
        for allowed in self.values:
            if type(allowed) is type(value) and allowed == value:
                return allowed
        texts = [str(allowed) for allowed in self.values]
        raise UsageError(
            f"{key} cannot be {value!r}",
            where=where,
            hint=nearest(value, texts)
            if isinstance(value, str)
            else f"choose from: {', '.join(texts)}",
        )


@dataclass(frozen=True, slots=True)
class Whole:
    """A property that can be set to a whole number of a range."""

    least: int
    most: int

    def check(self, key: str, value: object, where: str) -> PropertyValue:
        """Return `value` where it is allowed. Raises UsageError with the range."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        if whole and isinstance(value, int) and self.least <= value <= self.most:
            return value
        raise UsageError(
            f"{key} cannot be {value!r}",
            where=where,
            hint=f"give a whole number from {self.least} to {self.most}",
        )


class Properties:
    """The properties of one device."""

    def __init__(
        self,
        where: str,
        fixed: Mapping[str, PropertyValue],
        settable: Mapping[str, tuple[Choice | Whole, PropertyValue]],
    ) -> None:
        self._where = where
        self._fixed = dict(fixed)
        self._rules = {key: rule for key, (rule, _) in settable.items()}
        self._values = {key: value for key, (_, value) in settable.items()}

    @property
    def names(self) -> tuple[PropertyName, ...]:
        """All names, sorted, each with whether it can be set."""
        own = {**dict.fromkeys(self._fixed, False), **dict.fromkeys(self._rules, True)}
        return tuple(PropertyName(name, own[name]) for name in sorted(own))

    def get(self, key: str) -> PropertyValue:
        """Return a property. Raises UsageError with the nearest name."""
        if key in self._values:
            return self._values[key]
        if key in self._fixed:
            return self._fixed[key]
        raise self._unknown(key)

    def set(self, key: str, value: object) -> None:
        """Set a property. Raises UsageError for an unknown or read-only one, or a wrong value."""
        self._values[key] = self._checked(key, value)

    def merged(self, config: Mapping[str, object]) -> dict[str, PropertyValue]:
        """Return the settable properties with `config` laid over them; nothing is set."""
        return {**self._values, **{key: self._checked(key, v) for key, v in config.items()}}

    def _checked(self, key: str, value: object) -> PropertyValue:
        rule = self._rules.get(key)
        if rule is not None:
            return rule.check(key, value, self._where)
        if key in self._fixed:
            settable = ", ".join(sorted(self._rules))
            raise UsageError(
                f"{key} can only be read", where=self._where, hint=f"what can be set: {settable}"
            )
        raise self._unknown(key)

    def _unknown(self, key: str) -> UsageError:
        known = [*self._fixed, *self._rules]
        return UsageError(f"no property '{key}'", where=self._where, hint=nearest(key, known))


PRECISION = "INFERENCE_PRECISION_HINT"
THREADS = "INFERENCE_NUM_THREADS"
PROFILE = "PERF_COUNT"

MOST_THREADS = 256
"""That a kernel can be spread over."""

_CAPABILITIES = {"float32": "FP32", "float16": "FP16", "bfloat16": "BF16", "int8": "INT8"}


def default_precision(spec: DeviceSpec) -> str:
    """Return what a device computes float32 in."""
    return spec.rounding.get("float32", "float32")


def metrics(spec: DeviceSpec, ids: Sequence[str], *, exports: bool) -> dict[str, PropertyValue]:
    """Return what can only be read; `ids` are those of all devices of its kind."""
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
) -> dict[str, tuple[Choice | Whole, PropertyValue]]:
    """Return what can be set on the device called `name`, to what, and what it is at first."""
    own = name.rpartition(".")[2]
    precisions = tuple(sorted({*PRECISIONS, "float32"}))
    return {
        "DEVICE_ID": (Choice(tuple(ids)), own if own in ids else ids[0]),
        "NUM_STREAMS": (Whole(1, spec.streams), spec.streams),
        "PERFORMANCE_HINT": (Choice(("LATENCY", "THROUGHPUT")), "LATENCY"),
        PRECISION: (Choice(precisions), default_precision(spec)),
        THREADS: (Whole(1, max(MOST_THREADS, spec.threads)), spec.threads),
        PROFILE: (Choice((False, True)), False),
    }
