"""What of the question differs between two answers: model, platform, figures, options, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hetsim.base.text import Record
from hetsim.reporting.pages.differences.leaves import Change, changes
from hetsim.reporting.pages.reading import Left

_ASKED = ("objective", "objectives", "draws", "draw_seed", "sustained", "seed", "requests",
          "target_s", "rate_per_s", "max_devices", "unit", "kinds", "policies", "executor",
          "precision")  # fmt: skip
"""Entries of a record that say what was asked, or how."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing of the question that differs.

    Attributes
    ----------
    sort : str
        ``model``, ``platform``, ``figures``, ``options`` or ``versions``.
    change : Change
    """

    sort: str
    change: Change


def causes(first: Left, second: Left) -> list[Cause]:
    """Return what of the questions differs, as far as the records tell; the weightiest first."""
    was, now = question_of(first), question_of(second)
    if not (first.command and second.command):
        # What only one tells is no difference.
        for one, left in ((was, first), (now, second)):
            one["options"] = {
                key: value
                for key, value in one["options"].items()
                if key not in _options(left.command)
            }
    both = was["versions"].keys() & now["versions"].keys()
    for one in (was, now):
        one["versions"] = {key: one["versions"][key] for key in sorted(both)}
    for part, other in ((was["figures"], now["figures"]), (now["figures"], was["figures"])):
        for name in part:
            if name not in other:
                # All of a device that is not in both is one difference.
                part[name] = _short(part[name])
    return [Cause(sort, change) for sort in was for change in changes(was[sort], now[sort])]


def _short(figures: Record) -> str:
    words = [
        str(figures[key]) for key in ("of", "source", "status", "precision") if figures.get(key)
    ]
    return ", ".join(words)


def question_of(left: Left) -> dict[str, Record]:
    """Return what was asked, by sort: what was given, and what it was answered with."""
    problems = [_problem(record) for record in _problems(left)]
    record = left.record
    options: dict[str, Any] = {key: record[key] for key in _ASKED if key in record}
    plan = record.get("plan", record if left.kind == "plan" else {})
    if isinstance(plan, dict) and "strategy" in plan:
        if "--strategy" not in left.command:
            options["strategy"] = plan["strategy"]
        options.update(plan["options"] if isinstance(plan.get("options"), dict) else {})
    options.update(_options(left.command))
    manifest = left.manifest or {}
    versions = manifest.get("versions")
    return {
        "model": _merged(problem["model"] for problem in problems),
        "platform": _merged(problem["platform"] for problem in problems),
        "figures": _merged(problem["figures"] for problem in problems),
        "options": {**_merged(problem["options"] for problem in problems), **options},
        "versions": dict(versions) if isinstance(versions, dict) else {},
    }


def _problems(left: Left) -> list[Record]:
    record = left.record
    if left.kind == "plan":
        keys = ("model", "platform", "contention", "cost", "execute", "profiles")
        return [{key: record[key] for key in keys if record.get(key) is not None}]
    own = [record["problem"]] if isinstance(record.get("problem"), dict) else []
    served = record.get("served")
    several = served if isinstance(served, list) else []
    own += [one["problem"] for one in several if isinstance(one.get("problem"), dict)]
    answer = record.get("answer")
    service = answer.get("service") if isinstance(answer, dict) else None
    if isinstance(service, dict) and isinstance(service.get("problem"), dict):
        own.append(service["problem"])
    return own


def _problem(problem: Mapping[str, Any]) -> dict[str, Record]:
    model, platform = problem.get("model") or {}, problem.get("platform") or {}
    figures = problem.get("figures") or {}
    parts = {**_evidence(figures.get("devices")), **_evidence(figures.get("links"))}
    profiles = problem.get("profiles") or {}
    return {
        "model": {key: value for key, value in model.items() if key != "observed"},
        "platform": {
            **platform,
            **({"devices": ", ".join(problem["devices"])} if "devices" in problem else {}),
            **({"host": problem["host"]} if "host" in problem else {}),
        },
        "figures": {
            **parts,
            **{
                f"profile of {device}": {
                    key: one[key] for key in ("source", "sha256", "measured_share") if key in one
                }
                for device, one in profiles.items()
            },
        },
        "options": {
            key: problem[key]
            for key in ("contention", "execute", "cost", "pessimistic")
            if key in problem
        },
    }


def _evidence(parts: object) -> Record:
    """By device or link: where its figures are from, and by how much they may be off."""
    if not isinstance(parts, dict):
        return {}
    keys = ("of", "status", "before", "precision", "runtime", "kin", "within_80", "measured_share")
    return {
        str(name): {key: one[key] for key in keys if key in one}
        for name, one in parts.items()
        if isinstance(one, dict)
    }


def _options(command: Sequence[str]) -> dict[str, str]:
    """The words of a command by option, what stands alone by its place; where it left what is out.

    >>> _options(("hetsim", "compare", "zoo:a", "--platform", "laptop", "--json"))
    {'verb': 'compare', 'argument 1': 'zoo:a', '--platform': 'laptop'}
    """
    found: dict[str, str] = {}
    words = [*command[1:], ""] if command else []
    places = 0
    skip = False
    for word, after in pairwise(words):
        if skip:
            skip = False
            continue
        if word.startswith("-") and len(word) > 1:
            name, equals, value = word.partition("=")
            if not equals:
                skip = bool(after) and not after.startswith("-")
                value = after if skip else "yes"
            if name not in _TARGETS:
                found[name] = f"{found[name]}, {value}" if name in found else value
        else:
            name = "verb" if places == 0 else f"argument {places}"
            found[name] = word
            places += 1
    return found


_TARGETS = ("--report", "--trace", "--out", "-o", "--force", "--json", "--quiet", "-q", "--wide")
"""Options that say where an answer goes, and nothing of the question."""


def _merged(parts: Any) -> Record:
    """One record of several problems: the first's entries, and those of others that it lacks."""
    found: Record = {}
    for number, part in enumerate(parts):
        for key, value in part.items():
            if key not in found:
                found[key] = value
            elif found[key] != value:
                found[f"{key}, problem {number + 1}"] = value
    return found
