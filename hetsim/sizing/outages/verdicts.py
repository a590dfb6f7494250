"""What runs say of all objectives together."""

from __future__ import annotations

from hetsim.confidence.verdict import Answer
from hetsim.errors import UsageError
from hetsim.service.service import Service
from hetsim.sizing.judging import CONFIDENCE
from hetsim.workloads.workload import Workload

ORDER: dict[Answer, int] = {"meets": 0, "undecided": 1, "misses": 2}


def confidence_of_each(number: int) -> float:
    """Return that of each of so many verdicts at which all of them together are right."""
    return 1 - (1 - CONFIDENCE) / max(number, 1)


def answer_of(service: Service) -> Answer:
    """Return what a run says of all objectives together."""
    return max(
        (one.verdict.answer for stream in service.streams for one in stream.objectives),
        key=lambda one: ORDER[one],
        default="undecided",
    )


def check_objectives(workload: Workload) -> None:
    """Raise UsageError where there is no objective."""
    if not any(stream.slos for stream in workload.streams):
        raise UsageError("no stream has an objective", hint="give one, e.g. p99=50ms")


def check_asked(workload: Workload) -> None:
    """Raise UsageError where there is no objective, or devices fail anyway."""
    check_objectives(workload)
    if workload.failures is not None:
        raise UsageError(
            "devices that fail while requests come, and losses that are for good",
            hint="leave the failures out, or simulate them without asking what survives",
        )
