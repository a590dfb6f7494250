"""The same question on another platform: as it is, or as supposed."""

from __future__ import annotations

from collections.abc import Mapping

from hetsim.hardware.spec import Platform
from hetsim.problem.problem import Problem


def repriced(
    problem: Problem, platform: Platform, execute: Mapping[str, str] | None = None
) -> Problem:
    """Return what `problem` asks of its model, asked of `platform`.

    What devices execute as if, but for those of `execute`, profiles, cost model, contention and the
    bad end are kept; profiles are read again. `platform` is one as it was read, or with something
    supposed of it.

    Raises what ``Problem.of`` raises.
    """
    assert problem.model is not None
    given = {device: share.profile.source for device, share in problem.profiles.items()}
    return Problem.of(
        problem.model,
        platform,
        cost=problem.cost,
        contention=problem.contention,
        profiles={name: path for name, path in given.items() if name in platform.devices},
        execute={
            **{name: how for name, how in problem.executed.items() if name in platform.devices},
            **(execute or {}),
        },
        pessimistic=problem.pessimistic,
    )
