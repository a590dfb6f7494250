"""Certificate of a recommendation: claims about every vector, their format and parser.

The question is that of the search, record by record; ``docs/certificate.md`` explains each field.
Entries are referenced by their index in a list.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, GetPydanticSchema, ValidationError, create_model

from hetsim.core.files import read_regular, sha256_of
from hetsim.core.text import fields, plainly, records
from hetsim.errors import HetsimError
from hetsim.graph.loading import load_model
from hetsim.provisioning.platforms.bounds.bound import Bound
from hetsim.provisioning.platforms.policies import Policy
from hetsim.provisioning.platforms.question import (
    Arrivals,
    Question,
    Way,
    drawn,
)
from hetsim.provisioning.platforms.search import DeploymentRun, SearchResult, TriedVector
from hetsim.version import __version__
from hetsim.workload.workload import Workload

FORMAT = "hetsim-certificate/2"
MOST_BYTES = 1 << 26
"""Maximum size of a file."""
MOST_KEYS = 1 << 12
MOST_REQUESTS = 4_000_000

Row = TypeVar("Row")


class BadCertificate(Exception):
    """Error in the format of a certificate, with its location as a JSON pointer."""


class FalseClaim(Exception):
    """False claim of a certificate, with its location as a JSON pointer."""


def broken(where: str, what: str) -> NoReturn:
    raise BadCertificate(f"{where or '/'}: {what}")


def untrue(where: str, what: str) -> NoReturn:
    raise FalseClaim(f"{where or '/'}: {what}")


def at(rows: Sequence[Row], place: int, where: str) -> Row:
    """Return the entry of a list at an index. Raises BadCertificate if it is out of range."""
    if not 0 <= place < len(rows):
        broken(where, f"no whole number from 0 to {len(rows) - 1}")
    return rows[place]


class CertificateRecord(BaseModel):
    """JSON object with exactly these fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WaysClaim(CertificateRecord):
    """Ways of one device to serve a class, by size."""

    of_type: int
    of_class: int
    ways: tuple[Way, ...]


class ArrivalsClaim(CertificateRecord):
    """Packed arrivals: base64 of zlib; `pieces` are the sizes of the blocks."""

    pieces: tuple[int, ...]
    time_s: str
    ask: str

    @classmethod
    def of(cls, blocks: Sequence[Arrivals]) -> ArrivalsClaim:
        """Return the arrivals of several blocks."""
        arrivals = Arrivals.joined(blocks)
        return cls(
            pieces=tuple(map(len, blocks)),
            time_s=_packed(arrivals.time_s.astype("<f8")),
            ask=_packed(arrivals.ask.astype("<u2")),
        )

    def unpacked(self, asks: int) -> list[Arrivals]:
        """Return the blocks of arrivals for the given number of asks. Raises BadCertificate."""
        where = "/arrivals"
        requests = sum(self.pieces)
        if min(self.pieces, default=0) < 1 or requests > MOST_REQUESTS:
            broken(f"{where}/pieces", f"no numbers of 1 to {MOST_REQUESTS} requests together")
        time_s = _unpacked(self.time_s, "<f8", requests, f"{where}/time_s")
        ask = _unpacked(self.ask, "<u2", requests, f"{where}/ask")
        if not (np.isfinite(time_s).all() and (time_s[1:] >= time_s[:-1]).all() and time_s[0] >= 0):
            broken(f"{where}/time_s", "times do not ascend from 0 on")
        if time_s[-1] > 1e12 or ask.max() >= asks:
            broken(where, "later than 1e12 s, or of no ask")
        ends = np.cumsum(self.pieces)[:-1]
        each = zip(np.split(time_s, ends), np.split(ask.astype(np.int64), ends), strict=True)
        return [Arrivals(*block) for block in each]


def _claim(of: type, left_out: str = "", **own: Any) -> Any:
    """Return a strict schema of the fields of a dataclass, with types replaced by `own`."""
    hints = {**get_type_hints(of), **own}
    each: Any = {name: (kind, ...) for name, kind in hints.items() if name not in left_out.split()}
    schema = create_model(of.__name__, __base__=CertificateRecord, **each)
    return GetPydanticSchema(lambda _, handler: handler(schema))


QuestionClaim = _claim(Question, "arrivals free off priced", ways=tuple[WaysClaim, ...])
"""Schema of the question, without its arrivals."""

BoundClaim = _claim(Bound, capacity=tuple[float, ...], worth=tuple[float, ...])


class PlayedClaim(CertificateRecord):
    """Simulated vector: the number of `bounds` at the time, and its runs as in ``runs_of``."""

    counts: tuple[int, ...]
    bounds: int
    runs: list[Any]


class ChosenClaim(CertificateRecord):
    """Vector that meets, with its cost."""

    counts: tuple[int, ...]
    cost: int


class MadeOfClaim(CertificateRecord):
    """Version of hetsim, and SHA-256 of files by name, in hex."""

    hetsim: str
    files: dict[str, str]


class Claim(CertificateRecord):
    """Whole certificate."""

    certificate: Literal["hetsim-certificate/2"]
    made_of: MadeOfClaim
    question: Annotated[Any, QuestionClaim]
    policies: tuple[Policy, ...]
    arrivals: ArrivalsClaim | None
    bounds: tuple[Annotated[Any, BoundClaim], ...]
    played: tuple[PlayedClaim, ...]
    answer: ChosenClaim | None
    runner_up: ChosenClaim | None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Claim:
        """Return a file's certificate in bounded time and space. Raises BadCertificate, OSError."""
        try:
            text = read_regular(path, MOST_BYTES).decode("utf-8")
            json.loads(
                text, object_pairs_hook=_once, parse_constant=_number, parse_float=_number,
                parse_int=_number,
            )  # fmt: skip
        except (ValueError, RecursionError) as wrong:
            what = "nested too deep" if isinstance(wrong, RecursionError) else str(wrong)
            raise BadCertificate(f"/: no JSON: {what[:200]}") from None
        try:
            return cls.model_validate_json(text)
        except ValidationError as wrong:
            first = wrong.errors(include_url=False, include_context=False, include_input=False)[0]
            parts = (ascii(str(key))[1:-1][:80] for key in first["loc"])
            where = "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in parts)
            raise BadCertificate(f"{where or '/'}: {first['msg'][:80]}") from None
        except HetsimError as wrong:
            raise BadCertificate(f"/question: {wrong.what}") from None


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


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > MOST_KEYS:
        raise ValueError(f"more than {MOST_KEYS} keys in one object")
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key stands twice")


def _number(text: str) -> None:
    # The slot of a transfer is -1.
    if not -1 <= float(text) <= 2**53:
        raise ValueError(f"{text[:40]} is not a number from -1 to 2^53")


# Writing


def certificate(
    found: SearchResult, workload: Workload | None = None, files: Mapping[str, str] | None = None
) -> str:
    """Return the certificate of a search result as JSON.

    `workload` is that of random requests, `files` the SHA-256 of input files by name, in hex.
    Complexity: the requests, plus the devices and tasks of all simulated vectors.
    """
    question = found.question
    asked = {
        **fields(
            question,
            "aim max_devices given warm_up_s losses models classes streams asks "
            "types(name streams memory_bytes) "
            "kinds(name devices links cost most slots in_slot parts)",
        ),
        "ways": [
            {"of_type": of_type, "of_class": of_class, "ways": records(ways)}
            for (of_type, of_class), ways in sorted(question.ways.items())
        ],
        "splits": [
            {
                **fields(one, "model strategy kinds devices"),
                "ways": {str(of_class): records(ways) for of_class, ways in one.ways.items()},
            }
            for one in question.splits
        ],
    }
    played = [*found.tried, *(one for one in (found.answer, found.runner_up) if one is not None)]
    played.sort(key=lambda one: question.key(one.counts))
    arrivals = _arrivals(found, played, workload)
    record = {
        "certificate": FORMAT,
        # File names: a verifier rejects any that could control a terminal.
        "made_of": plainly({"hetsim": __version__, "files": dict(files or {})}),
        "question": plainly(asked),
        "policies": records(found.policies),
        "arrivals": None if arrivals is None else arrivals.model_dump(),
        "bounds": records(found.bounds),
        "played": [{**fields(one, "counts bounds"), "runs": runs_of(one)} for one in played],
        **{
            name: one and {"counts": list(one.counts), "cost": question.cost(one.counts)}
            for name, one in (("answer", found.answer), ("runner_up", found.runner_up))
        },
    }
    return json.dumps(record, allow_nan=False, separators=(",", ":"))


def digests_of(paths: Mapping[str, str], models: tuple[str, ...]) -> dict[str, str]:
    """Return the SHA-256, in hex, of files by name, and of models by their names."""
    found = {name: sha256_of(path) for name, path in paths.items()}
    for model in models:
        if model.startswith("zoo:"):
            found[model] = load_model(model).sha256
        elif Path(model).is_file():
            found[model] = sha256_of(model)
    return found


def _arrivals(
    found: SearchResult, played: Sequence[TriedVector], workload: Workload | None
) -> ArrivalsClaim | None:
    arrivals = found.question.arrivals
    if arrivals is not None:
        return ArrivalsClaim.of([arrivals])
    looked = [bound.requests for bound in found.bounds]
    looked += [
        each.played.played
        for one in played for run in one.runs for each in (run, *run.also)
        if each.played is not None
    ]  # fmt: skip
    most = max(looked, default=0)
    if not most or workload is None:
        return None
    return ArrivalsClaim.of(list(drawn(workload, most)))


def runs_of(one: TriedVector) -> list[dict[str, Any]]:
    """Return the runs of a vector in the form of a certificate."""
    return [_run(run) for run in one.runs]


def _run(run: DeploymentRun) -> dict[str, Any]:
    """Return policies with the same deployment, that or the reason against it, and the result."""
    found = fields(run, "policies lost")
    if isinstance(run.placed, str):
        return {**found, "none": run.placed}
    found["instances"] = [
        [{"devices": list(one.devices), "split": one.split} for one in mine]
        for mine in run.placed.instances
    ]
    if run.played is None:
        return {**found, "bound": run.bound}
    # The percentile is omitted: late requests are counted.
    judged = [list(said[:6]) for said in run.played.said]
    return {
        **found,
        "played": run.played.played,
        "judged": judged,
        "also": [_run(one) for one in run.also],
    }
