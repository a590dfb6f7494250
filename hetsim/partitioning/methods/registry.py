"""Merge methods by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import get_type_hints

from hetsim.core.plugins import Entry, Option, kind_in_words, meanings
from hetsim.errors import UsageError, nearest
from hetsim.partitioning.housekeeping import Housekeeping, Mode
from hetsim.partitioning.regions import Quotient
from hetsim.partitioning.sizes import SizeRules
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """Properties of a merge method.

    `connected`: its groups are weakly connected. `needs_default`: the last device of the priority
    must support every node. `knows_host`: it gets the index of the host. `knows_problem`: it sees
    the readers of inputs and constants, and the devices in order.
    """

    name: str
    summary: str
    connected: bool
    needs_default: bool = False
    knows_host: bool = False
    knows_problem: bool = False


_METHODS: Mapping[str, MethodInfo] = {
    info.name: info
    for info in (
        MethodInfo(
            "boundary",
            "OpenVINO's current method: boundaries between devices, and more where data comes back",
            connected=False,
            knows_problem=True,
        ),
        MethodInfo(
            "byoc",
            "TVM's flow: each region merged with those that feed it; the default device takes the "
            "rest",
            connected=True,
            needs_default=True,
        ),
        MethodInfo(
            "compact",
            "fewest connected groups, by contraction in a maintained topological order",
            connected=True,
            knows_host=True,
        ),
        MethodInfo(
            "convex",
            "the node-partitioning patent's walk from the sources, kept acyclic",
            connected=True,
        ),
        MethodInfo(
            "greedy",
            "OpenVINO's published method: grown from every root, largest first, then made acyclic",
            connected=True,
        ),
        MethodInfo(
            "stage",
            "typed-fusion levels; groups need not be connected",
            connected=False,
            knows_host=True,
        ),
    )
}


def methods() -> tuple[Entry, ...]:
    """Return the merge methods, by name."""
    return tuple(
        Entry(
            info.name,
            info.name,
            info.summary,
            ("connected",) if info.connected else (),
            ("a default device that supports every node",) if info.needs_default else (),
            _options=_rules,
        )
        for _, info in sorted(_METHODS.items())
    )


def _rules() -> tuple[Option, ...]:
    """Return the rules of all methods: fields of SizeRules and Housekeeping, as ``--set``."""
    sizes, treated = SizeRules(), Housekeeping()
    found = [
        (name, hint, getattr(sizes, name), meanings(SizeRules)[name])
        for name, hint in get_type_hints(SizeRules).items()
    ]
    of_nodes = meanings(Housekeeping)
    found += [
        ("housekeeping", Mode, treated.mode, of_nodes["mode"]),
        ("housekeeping_ops", tuple[str, ...], None, of_nodes["ops"]),
    ]
    texts = ["" if value is None else json.dumps(value).strip('"') for _, _, value, _ in found]
    return tuple(
        Option(name, kind_in_words(hint), "" if text == "null" else text, meaning)
        for (name, hint, _, meaning), text in zip(found, texts, strict=True)
    )


def method_named(name: str) -> MethodInfo:
    """Return the method with the given name. Raises UsageError with the nearest name."""
    info = _METHODS.get(name)
    if info is None:
        raise UsageError(f"no merge method '{name}'", hint=nearest(name, _METHODS))
    return info


def merge(
    info: MethodInfo,
    problem: Problem,
    quotient: Quotient,
    assignment: Sequence[int],
    order: Sequence[int],
) -> tuple[list[int], tuple[str, ...]]:
    """Return a method's group label per node, and notes for the user.

    Its module has ``merge_with_notes(dag, device_of)``, or the form given by its ``MethodInfo``.

    `assignment` has the device of each node, and `order` the devices by priority.
    """
    module = import_module(f"hetsim.partitioning.methods.{info.name}")
    device_of = quotient.devices(assignment)
    labels: list[int]
    notes: tuple[str, ...] = ()
    if info.knows_problem:
        labels = module.merge_problem(problem, quotient.place, device_of, order)
    elif info.knows_host:
        labels = module.merge(quotient.dag, device_of, problem.host)
    else:
        labels, notes = module.merge_with_notes(quotient.dag, device_of)
    return quotient.spread(labels), notes
