"""Rules of a partition as ``KEY=VALUE`` texts of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hetsim.errors import UsageError, nearest
from hetsim.partitioning.housekeeping import Housekeeping
from hetsim.partitioning.sizes import SizeRules

_NUMBERS = ("min_nodes", "max_groups", "max_nodes_per_group")
KEYS = (*_NUMBERS, "fit_weights", "housekeeping", "housekeeping_ops")


@dataclass(frozen=True, slots=True)
class Rules:
    """What ``--set`` asks for; None where it says nothing."""

    sizes: SizeRules | None
    housekeeping: Housekeeping | None


def read_rules(settings: Sequence[str]) -> Rules:
    """Read ``KEY=VALUE`` texts, each key once.

    Raises UsageError for an unknown key, with the nearest, one that comes twice, or a value that
    does not fit.
    """
    sizes: dict[str, Any] = {}
    housekeeping: dict[str, Any] = {}
    seen: set[str] = set()
    for text in settings:
        key, _, value = text.partition("=")
        if key in seen:
            raise UsageError(f"'{key}' is given twice", where="--set", hint="leave one out")
        seen.add(key)
        if key not in KEYS:
            raise UsageError(f"no rule '{key}'", where="--set", hint=nearest(key, KEYS))
        if key == "fit_weights":
            if value not in ("true", "false"):
                raise UsageError(f"'{text}' is neither true nor false", where="--set")
            sizes[key] = value == "true"
        elif key in _NUMBERS:
            if not (value.isascii() and value.isdigit()):
                raise UsageError(
                    f"'{text}' has no whole number", where="--set", hint=f"write {key}=2"
                )
            sizes[key] = int(value)
        elif key == "housekeeping":
            housekeeping["mode"] = value
        else:
            ops = frozenset(op.strip() for op in value.split(","))
            if not all(ops):
                raise UsageError(
                    f"'{text}' has an empty op type",
                    where="--set",
                    hint="write housekeeping_ops=Transpose,Reshape",
                )
            housekeeping["ops"] = ops
    if "ops" in housekeeping and housekeeping.get("mode", "assigned") == "assigned":
        raise UsageError(
            "housekeeping_ops without a way to treat them",
            where="--set",
            hint="add --set housekeeping=follow or --set housekeeping=default",
        )
    made = Rules(
        SizeRules(**sizes) if sizes else None,
        Housekeeping(**housekeeping) if housekeeping else None,
    )
    if made.housekeeping is not None:
        made.housekeeping.check()
    if made.sizes is not None:
        made.sizes.check()
    return made
