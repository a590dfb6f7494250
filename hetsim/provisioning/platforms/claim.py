"""Certificate of a recommendation as records: what is written is what is read and checked.

``docs/certificate.md`` says what each field means. Things are named by their place in a list.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import zlib
from collections.abc import Sequence, Sized
from typing import Annotated, Any, Literal, NoReturn, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, ValidationError

from hetsim.core.files import read_regular
from hetsim.provisioning.platforms.policies import Placement, Routing
from hetsim.provisioning.platforms.question import Aim, Arrivals, Kind

FORMAT = "hetsim-certificate/1"
MOST_BYTES = 1 << 26
"""Of a file."""
MOST_KEYS = 1 << 12
MOST_REQUESTS = 4_000_000
MOST_WAYS = 1 << 15

Row = TypeVar("Row")


class Broken(Exception):
    """No certificate: what is wrong, and where, as a JSON pointer."""


class Untrue(Exception):
    """False claim of a certificate: what is not so, and where, as a JSON pointer."""


def broken(where: str, what: str) -> NoReturn:
    raise Broken(f"{where or '/'}: {what}")


def untrue(where: str, what: str) -> NoReturn:
    raise Untrue(f"{where or '/'}: {what}")


def at(rows: Sequence[Row], place: int, where: str) -> Row:
    """Value at a place of a list. Raises Broken where there is none."""
    if not 0 <= place < len(rows):
        broken(where, f"no whole number from 0 to {len(rows) - 1}")
    return rows[place]


def as_long(rows: Sized, length: int, where: str) -> None:
    """Check the length of a list. Raises Broken."""
    if len(rows) != length:
        broken(where, f"{len(rows)} entries instead of {length}")


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a text that cannot be printed")
    return text


Whole = Annotated[int, Field(strict=True, ge=0, le=1 << 53)]
Signed = Annotated[int, Field(strict=True, ge=-(10**9), le=10**9)]
Number = Annotated[float, Field(strict=True, ge=0, le=1e15)]
Above = Annotated[float, Field(strict=True, gt=0, le=1e15)]
Share = Annotated[float, Field(strict=True, gt=0, le=1 - 1e-12)]
Error = Annotated[float, Field(strict=True, ge=0, le=0.5)]
Zero = Annotated[float, Field(strict=True, ge=0, le=0)]
Text = Annotated[str, Field(strict=True), AfterValidator(_printable)]
Rows = Annotated[list[Row], FailFast(), Field(max_length=1 << 20)]
Few = Annotated[list[Row], FailFast(), Field(max_length=1000)]
Task = tuple[
    Annotated[int, Field(strict=True, ge=-1, le=1 << 53)], Number, Rows[Whole], Rows[Whole]
]


Objectives = Annotated[list[Whole | None], Field(max_length=1000)]
Judged = tuple[Whole, Whole, Whole, Whole, Literal["meets", "misses", "undecided"], Error]


class Record(BaseModel):
    """Object of just these fields; one that ends in ``_`` is written without it."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        alias_generator=lambda name: name.removesuffix("_"),
    )


class NamedClaim(Record):
    name: Text


class DeviceClaim(NamedClaim):
    streams: Annotated[Whole, Field(ge=1, le=10_000)]


class KindClaim(NamedClaim):
    devices: Rows[Whole]
    links: Annotated[Whole, Field(le=10_000)]
    counts: Annotated[Whole, Field(le=1000)]
    most: Annotated[Whole, Field(le=10_000)]
    price: dict[Text, Text]
    cost: Whole


class LimitClaim(Record):
    """Limit of a weighted sum over counts."""

    of: Rows[Signed]
    at_least: Signed
    at_most: Signed

    @classmethod
    def of_hosts(cls, kinds: Sequence[Kind]) -> list[LimitClaim]:
        """Limits of one host at most and of its slots; none where there are no hosts."""
        if not any(kind.slots for kind in kinds):
            return []
        slots = [kind.slots for kind in kinds]
        taken = [int(kind.in_slot) - kind.slots for kind in kinds]
        return [
            cls(of=[int(bool(many)) for many in slots], at_least=0, at_most=1),
            cls(of=taken, at_least=-sum(slots), at_most=0),
        ]


class ClassClaim(Record):
    model: Whole
    variant: Text


class StreamClaim(NamedClaim):
    model: Whole
    level: Annotated[Whole, Field(le=0)]
    slos: Annotated[list[tuple[Share, Above]], Field(max_length=100)]


class AskClaim(Record):
    stream: Whole
    class_: Whole
    rate_per_s: Above | None


class PolicyClaim(NamedClaim):
    placement: Placement
    routing: Routing
    max_batch: Annotated[Whole, Field(ge=1, le=10_000)]
    limit: Whole | Literal["streams"]
    delay_s: Zero
    preferred: Annotated[list[Whole], Field(max_length=0)]
    max_queue_size: None
    timeout_s: None
    timeout_action: Literal["reject"]
    refused: Annotated[list[tuple[Whole, Rows[Whole]]], Field(max_length=10_000)] = []


class QuestionClaim(Record):
    objective: Aim
    max_devices: Annotated[Whole, Field(le=10**6)]
    losses: Annotated[Whole, Field(ge=1, le=16)] = 0
    error: Error
    demand: Literal["trace", "sampled"]
    warm_up_s: Number
    devices: Few[DeviceClaim]
    kinds: Annotated[list[KindClaim], Field(min_length=1, max_length=64)]
    limits: Few[LimitClaim]
    models: Few[NamedClaim]
    classes: Annotated[list[ClassClaim], Field(max_length=256)]
    streams: Few[StreamClaim]
    asks: Annotated[list[AskClaim], FailFast(), Field(max_length=10_000)]
    policies: Annotated[list[PolicyClaim], FailFast(), Field(min_length=1, max_length=1000)]


class ArrivalsClaim(Record):
    """Requests that came, packed."""

    requests: Annotated[Whole, Field(ge=1, le=MOST_REQUESTS)]
    time_s: Text
    ask: Text

    @classmethod
    def of(cls, arrivals: Arrivals) -> ArrivalsClaim:
        """Arrivals packed as base64 of zlib."""
        return cls(
            requests=len(arrivals),
            time_s=_packed(arrivals.time_s.astype("<f8")),
            ask=_packed(arrivals.ask.astype("<u2")),
        )

    def unpacked(self, asks: int) -> Arrivals:
        """Arrivals of the given number of asks. Raises Broken."""
        where = "/arrivals"
        time_s = _unpacked(self.time_s, "<f8", self.requests, f"{where}/time_s")
        ask = _unpacked(self.ask, "<u2", self.requests, f"{where}/ask")
        if not (np.isfinite(time_s).all() and (time_s[1:] >= time_s[:-1]).all() and time_s[0] >= 0):
            broken(f"{where}/time_s", "times do not ascend from 0 on")
        if time_s[-1] > 1e12 or ask.max() >= asks:
            broken(where, "later than 1e12 s, or of no ask")
        return Arrivals(time_s, ask.astype(np.int64))


class WayClaim(Record):
    """Least that a batch takes of devices and links; devices are (unit, place, seconds)."""

    class_: Whole
    batch: Annotated[Whole, Field(ge=1, le=10_000)]
    alone_s: Number
    strategy: Text
    kinds: Few[Whole]
    devices: Few[tuple[Whole, Whole, Number]]
    links: Rows[Number]


class BoundClaim(Record):
    """Linear bound on counts, and what it rests on."""

    by: Literal["needs", "rate", "window", "pooled"]
    capacity: Rows[Number]
    links: Rows[Rows[Number]]
    least: Number
    ask: Whole = 0
    slo: Objectives | Whole
    worth: Rows[Number] = []
    from_: Whole = 0
    to: Whole = 0
    error: Error = 0.0
    requests: Annotated[Whole, Field(ge=1)] = 0


class TemplateClaim(Record):
    """Tasks of a batch: (slot or -1, seconds, links, tasks that end first) each."""

    way: Whole
    tasks: Annotated[list[Task], FailFast(), Field(max_length=100_000)]


class PlaceClaim(Record):
    copies: Few[Whole]
    way: Whole


class InstanceClaim(Record):
    copies: Few[Whole]
    templates: Rows[Rows[Whole]]


class RunClaim(Record):
    """Policy on a vector: without a deployment, excluded by a bound, or played."""

    counts: Rows[Whole]
    policy: Whole
    lost: Rows[Whole] = []
    none: Text | None = None
    bound: Whole | None = None
    places: Rows[Rows[PlaceClaim]] = []
    instances: Rows[Rows[InstanceClaim]] = []
    played: Whole = 0
    judged: Rows[Judged] = []


class TriedClaim(Record):
    counts: Rows[Whole]
    runs: Rows[Whole]


class ChosenClaim(Record):
    counts: Rows[Whole]
    cost: Whole
    run: Whole
    without: Rows[Whole] = []


class MadeOfClaim(Record):
    hetsim: Text
    files: dict[str, Annotated[str, Field(strict=True, pattern="^[0-9a-f]{64}$")]]


class Claim(Record):
    """Certificate as a whole."""

    certificate: Literal["hetsim-certificate/1"]
    made_of: MadeOfClaim
    question: QuestionClaim
    arrivals: ArrivalsClaim | None
    ways: Annotated[list[WayClaim], FailFast(), Field(max_length=MOST_WAYS)]
    bounds: Few[BoundClaim]
    templates: Rows[TemplateClaim]
    runs: Rows[RunClaim]
    tried: Rows[TriedClaim]
    undecided: Rows[Rows[Whole]]
    answer: ChosenClaim | None
    runner_up: ChosenClaim | Literal["unknown"] | None

    def text(self) -> str:
        """Certificate as JSON."""
        tree = self.model_dump(by_alias=True, exclude_unset=True)
        return json.dumps(tree, allow_nan=False, separators=(",", ":"))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Claim:
        """Certificate in a file, in bounded time and memory. Raises Broken, OSError."""
        try:
            tree = json.loads(
                read_regular(path, MOST_BYTES).decode("utf-8"),
                object_pairs_hook=_once,
                parse_constant=_never,
                parse_float=_finite,
            )
        except (ValueError, RecursionError) as wrong:
            text = "nested too deep" if isinstance(wrong, RecursionError) else str(wrong)
            raise Broken(f"no JSON: {text[:200]}") from None
        try:
            return cls.model_validate(tree)
        except ValidationError as wrong:
            first = wrong.errors(include_url=False, include_context=False, include_input=False)[0]
            parts = (ascii(str(key))[1:-1][:80] for key in first["loc"])
            where = "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in parts)
            raise Broken(f"{where or '/'}: {first['msg'][:80]}") from None


def _packed(array: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()


def _unpacked(text: str, kind: str, length: int, where: str) -> np.ndarray[Any, Any]:
    size = length * np.dtype(kind).itemsize
    try:
        packed = zlib.decompressobj()
        raw = packed.decompress(base64.b64decode(text, validate=True), size + 1)
    except (binascii.Error, zlib.error, ValueError):
        broken(where, "no base64 of zlib")
    if len(raw) != size or packed.unconsumed_tail or packed.unused_data:
        broken(where, f"not {length} numbers of {kind}")
    return np.frombuffer(raw, kind)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(pairs) > MOST_KEYS:
        raise ValueError(f"more than {MOST_KEYS} keys in one object")
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _never(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:40]} is too large")
    return value
