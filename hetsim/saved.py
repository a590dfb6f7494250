"""Plans from disk, with the model and platform that they were made for."""

from __future__ import annotations

import os
from pathlib import Path

from hetsim.errors import PlanError
from hetsim.graph.model import load_model
from hetsim.hardware.catalog import load_platform
from hetsim.plans import Plan, parse
from hetsim.problem import Problem, check_contention


def load_plan(path: str | os.PathLike[str], problem: Problem | None = None) -> Plan:
    """Read a plan that ``Plan.save`` wrote.

    Parameters
    ----------
    path : path
    problem : Problem, optional
        The problem it was made for. Absent: the model and platform that the file names
        are loaded again and must not have changed.

    Raises
    ------
    PlanError
        Where the file is missing, no plan, or does not belong to the problem.
    """
    where = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "not a text file"
        raise PlanError(
            f"cannot read: {what}", where=where, hint="give a saved plan.json"
        ) from None
    return Plan.from_json(
        text, problem if problem is not None else _problem(text, where), where=where
    )


def _problem(text: str, where: str) -> Problem:
    record = parse(text, where)
    model_of, platform_of = record.get("model"), record.get("platform")
    if model_of is None or platform_of is None:
        raise PlanError(
            "it names no model or platform", where=where, hint="give the problem it was made for"
        )
    try:
        model = load_model(
            model_of["source"],
            dims=model_of["dims"],
            shapes=model_of["shapes"],
            canonical=model_of["canonical"],
            extensions=model_of.get("extensions", ()),
        )
        platform = load_platform(platform_of["source"])
        for name, is_now, was in (
            ("model", model.sha256, model_of["sha256"]),
            ("platform", platform.sha256, platform_of["sha256"]),
        ):
            if is_now != was:
                raise PlanError(
                    f"the {name} changed since the plan was made", where=where, hint="plan again"
                )
    except (KeyError, TypeError) as error:
        raise PlanError(
            f"the plan's model or platform entry is broken: {error}", where=where
        ) from None
    return Problem.of(model, platform, contention=check_contention(record["contention"]))
