"""The answer: which subgraph runs on which device, in which order, and why."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from hetsim.errors import PlanError
from hetsim.partitioning.partition import Group, check
from hetsim.problem import Problem

SCHEMA = "hetsim-plan/1"


@dataclass(frozen=True, eq=False)
class Plan:
    """Every node in one group, every group on one device, in an executable order.

    Attributes
    ----------
    problem : Problem
    strategy : str
        As the user named it, e.g. ``hetero:npu,gpu,cpu``.
    groups : tuple of Group
        In execution order: a group stands after every group that feeds it, and each
        device runs its groups in this order.
    reason : str
        Why this plan: what the strategy did, in one sentence.
    options : mapping of str to str
        Options given to the strategy.
    """

    problem: Problem = field(repr=False)
    strategy: str
    groups: tuple[Group, ...]
    reason: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def assignment(self) -> tuple[int, ...]:
        """Device index by node."""
        assigned = [-1] * self.problem.n
        for group in self.groups:
            device = self.problem.devices.index(group.device)
            for node in group.nodes:
                assigned[node] = device
        return tuple(assigned)

    @property
    def devices_used(self) -> tuple[str, ...]:
        """Devices that run at least one group, in the problem's order."""
        used = {group.device for group in self.groups}
        return tuple(device for device in self.problem.devices if device in used)

    def validate(self) -> None:
        """Raise PlanError where a group breaks a rule of partitions. O(V + E)."""
        check(self.problem, self.groups, where=f"plan '{self.strategy}'")

    def to_json(self) -> str:
        """Return the plan as JSON text, the same for the same question in any process."""
        problem = self.problem
        model, platform = problem.model, problem.platform
        record: dict[str, Any] = {
            "schema": SCHEMA,
            "problem": {"name": problem.name, "fingerprint": problem.fingerprint},
            "model": None,
            "platform": None,
            "contention": problem.contention,
            "strategy": self.strategy,
            "options": dict(sorted(self.options.items())),
            "reason": self.reason,
            "groups": [
                {
                    "id": index,
                    "device": group.device,
                    "nodes": [problem.node_names[node] for node in group.nodes],
                    "origins": list(
                        dict.fromkeys(
                            name for node in group.nodes for name in problem.origins[node]
                        )
                    ),
                }
                for index, group in enumerate(self.groups)
            ],
        }
        if model is not None:
            record["model"] = {
                "source": model.source,
                "sha256": model.sha256,
                "canonical": model.canonical,
                "dims": dict(sorted(model.dims.items())),
                "shapes": {name: list(shape) for name, shape in sorted(model.shapes.items())},
            }
            if model.extensions:
                record["model"]["extensions"] = [e.source for e in model.extensions]
        if platform is not None:
            record["platform"] = {"source": platform.source, "sha256": platform.sha256}
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``to_json`` to `path`, whole or not at all."""
        target = Path(path)
        draft = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        try:
            draft.write_text(self.to_json(), encoding="utf-8")
            draft.replace(target)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise PlanError(f"cannot write: {error.strerror}", where=str(path)) from error

    @classmethod
    def from_json(cls, text: str, problem: Problem, *, where: str = "plan") -> Plan:
        """Read a plan of `problem` back, and validate it.

        Raises
        ------
        PlanError
            Where the text is no plan, names unknown nodes or devices, was made for
            another problem, or is not a valid partition.
        """
        record = parse(text, where)
        made_for = record["problem"]
        if made_for["fingerprint"] != problem.fingerprint:
            raise PlanError(
                f"made for another problem ('{made_for['name']}'; this one is '{problem.name}')",
                where=where,
                hint="model, platform, costs or hetsim changed since: plan again",
            )
        ids = {name: node for node, name in enumerate(problem.node_names)}
        groups: list[Group] = []
        for entry in record["groups"]:
            unknown = [name for name in entry["nodes"] if name not in ids]
            if unknown:
                raise PlanError(f"the problem has no node '{unknown[0]}'", where=where)
            groups.append(Group(entry["device"], tuple(ids[name] for name in entry["nodes"])))
        plan = cls(
            problem=problem,
            strategy=record["strategy"],
            groups=tuple(groups),
            reason=record["reason"],
            options=record["options"],
        )
        check(problem, plan.groups, where=where)
        return plan


def parse(text: str, where: str) -> dict[str, Any]:
    """Return the plan's record. Raises PlanError where the text is no hetsim plan."""
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise PlanError(
            f"not JSON: {error.msg}", where=f"{where}:{error.lineno}", hint="give a saved plan.json"
        ) from None
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise PlanError(
            f"not a plan of schema {SCHEMA}", where=where, hint="give a plan.json that hetsim wrote"
        )
    if not _has_shape(record):
        raise PlanError("the plan lacks fields or has some of the wrong type", where=where)
    return record


def _has_shape(record: dict[str, Any]) -> bool:
    problem, groups = record.get("problem"), record.get("groups")
    return (
        isinstance(problem, dict)
        and {"name", "fingerprint"} <= problem.keys()
        and all(isinstance(record.get(key), str) for key in ("strategy", "reason", "contention"))
        and isinstance(record.get("options"), dict)
        and isinstance(groups, list)
        and all(
            isinstance(group, dict)
            and isinstance(group.get("device"), str)
            and isinstance(group.get("nodes"), list)
            and all(isinstance(name, str) for name in group["nodes"])
            for group in groups
        )
    )
