"""Plan: the subgraph of each device, their order, and the reason."""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from hetsim.core import checks
from hetsim.core.files import whole_file
from hetsim.core.result import Result
from hetsim.core.room import out_of_room
from hetsim.core.text import fields
from hetsim.errors import PlanError, nearest
from hetsim.graph.shapes.observed import array_record, observed_record
from hetsim.problem.groups import Group
from hetsim.problem.problem import Problem
from hetsim.problem.record import given_record, model_record, supposed_record
from hetsim.problem.validator import check

SCHEMA = "hetsim-plan/1"
REPLICATED = "hetsim-plan/2"
"""Schema of a plan of several replicas, with the replica of each group and the deal."""

_PROBLEM = checks.instance("hetsim.problem.problem:Problem")
_GROUPS = checks.sequence(checks.instance("hetsim.problem.groups:Group"))


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Result):
    """Partition of the nodes into groups, each on one device, in an executable order.

    Or several such plans, the replicas, which share the requests: request r goes to replica
    ``deal[r % len(deal)]``. Each replica is a valid partition of the whole graph; replicas may
    share devices, where weights are resident once.

    Attributes
    ----------
    problem : Problem
    strategy : str
        Strategy as named by the user, e.g. ``hetero:npu,gpu,cpu``.
    groups : tuple of Group
        Groups in execution order: a group follows all groups that feed it, and each device runs its
        groups in this order. Groups of replicas follow one another.
    reason : str
        Summary of what the strategy did, in one sentence.
    options : mapping of str to str
        Options given to the strategy.
    sizes : tuple of int
        Number of groups by replica; empty: there is one replica.
    deal : tuple of int
        Replica by request, repeated; empty for one replica.
    """

    problem: Problem = field(repr=False)
    strategy: str
    groups: tuple[Group, ...]
    reason: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()
    deal: tuple[int, ...] = ()

    @classmethod
    def dealt(
        cls, replicas: Sequence[Plan], deal: Sequence[int], *, strategy: str, reason: str = ""
    ) -> Plan:
        """Return the plan that distributes requests over `replicas`, plans of one replica each.

        With one replica, the plan has no deal. Raises PlanError without a replica, if one is of
        another problem, or if `deal` leaves one without requests.
        """
        where = f"plan '{strategy}'"
        if not replicas:
            raise PlanError("it has no replica", where=where)
        problem = replicas[0].problem
        if any(replica.problem is not problem for replica in replicas):
            raise PlanError("its replicas are of different problems", where=where)
        groups = tuple(group for replica in replicas for group in replica.groups)
        if len(replicas) == 1:
            return cls(problem, strategy, groups, reason)
        sizes = tuple(len(replica.groups) for replica in replicas)
        made = cls(problem, strategy, groups, reason, sizes=sizes, deal=tuple(deal))
        made.check_deal(where)
        return made

    @cached_property
    def replicas(self) -> tuple[Plan, ...]:
        """Plans among which requests are distributed; the plan itself if it has one replica."""
        if not self.sizes:
            return (self,)
        found: list[Plan] = []
        for first, size in zip(self.offsets, self.sizes, strict=True):
            groups = self.groups[first : first + size]
            found.append(replace(self, groups=groups, sizes=(), deal=()))
        return tuple(found)

    def __post_init__(self) -> None:
        """Check the fields; ``validate`` checks the partition."""
        _PROBLEM(self.problem, "a plan's problem")
        checks.text(self.strategy, "a plan's strategy")
        if type(self.groups) is not tuple or set(map(type, self.groups)) - {Group}:
            _GROUPS(self.groups, "a plan's groups")

    def at_bad_end(self) -> Plan:
        """Return the plan with every device and link at the pessimistic end of its interval.

        See ``Problem.at_bad_end``.
        """
        return replace(self, problem=self.problem.at_bad_end())

    @property
    def offsets(self) -> tuple[int, ...]:
        """Index into `groups` of the first of each replica."""
        return (0, *accumulate(self.sizes[:-1]))

    @property
    def period(self) -> tuple[int, ...]:
        """Replica by request, repeated: `deal`, or (0,)."""
        return self.deal or (0,)

    @property
    def each_once(self) -> Plan:
        """Plan with the same replicas, one request each in turn."""
        return replace(self, deal=tuple(range(len(self.sizes))))

    def replica_of(self, request: int) -> int:
        """Return the index of the replica of a request."""
        return self.deal[request % len(self.deal)] if self.deal else 0

    @property
    def shares(self) -> tuple[int, ...]:
        """Requests of each replica in one period."""
        return tuple(self.period.count(index) for index in range(len(self.replicas)))

    @cached_property
    def assignment(self) -> tuple[int, ...]:
        """Device index by node, -1 for a node in no group.

        Raises PlanError if replicas place a node on different devices.
        """
        if self.sizes:
            raise PlanError(
                f"a node has a device in each of the plan's {len(self.sizes)} replicas",
                where=f"plan '{self.strategy}'",
                hint="use one of plan.replicas",
            )
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
        """Raise PlanError if a replica breaks a rule of partitions. O(V + E) per replica."""
        self._check(f"plan '{self.strategy}'")

    def check_deal(self, where: str) -> None:
        """Raise PlanError if sizes and deal contradict each other."""
        count = len(self.sizes)
        if not self.sizes and not self.deal:
            return
        if count < 2 or sum(self.sizes) != len(self.groups):
            raise PlanError(
                f"{count} replicas have {sum(self.sizes)} groups in total, but the plan has "
                f"{len(self.groups)}",
                where=where,
                hint="build it with Plan.dealt",
            )
        strange = sorted({index for index in self.deal if not 0 <= index < count})
        unused = sorted(set(range(count)) - set(self.deal))
        if strange or unused:
            raise PlanError(
                f"its deal names replica {strange[0]}, but there are {count} replicas"
                if strange
                else f"its deal gives replica {unused[0]} no request",
                where=where,
                hint="give every replica a request, and remove those without one",
            )

    def _check(self, where: str) -> None:
        self.check_deal(where)
        for index, replica in enumerate(self.replicas):
            place = f"{where}, replica {index}" if self.sizes else where
            check(self.problem, replica.groups, where=place)

    def to_json(self) -> str:
        """Return the plan as JSON text, the same for the same question in any process."""
        problem = self.problem
        model, platform = problem.model, problem.platform
        record: dict[str, Any] = {
            "schema": REPLICATED if self.sizes else SCHEMA,
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
        if self.sizes:
            record["deal"] = list(self.deal)
            ends = [first + size for first, size in zip(self.offsets, self.sizes, strict=True)]
            for index, entry in enumerate(record["groups"]):
                entry["replica"] = bisect_right(ends, index)
        if model is not None:
            record["model"] = model_record(model)
            if model.frozen:
                record["model"]["freeze"] = {
                    name: array_record(array) for name, array in sorted(model.frozen.items())
                }
            if model.observed is not None:
                record["model"]["observed"] = observed_record(model.observed)
            if model.extensions:
                record["model"]["extensions"] = [e.source for e in model.extensions]
        if platform is not None:
            record["platform"] = {**fields(platform, "source sha256"), **supposed_record(platform)}
        if problem.profiles:
            record["profiles"] = {
                device: fields(
                    share,
                    "format=profile.format source=profile.source sha256=profile.sha256 "
                    "measured_share=share",
                )
                for device, share in problem.profiles.items()
            }
        if problem.measured:
            record["measured"] = given_record(problem.measured)
        if problem.executed:
            record["execute"] = problem.executed
        if problem.cost:
            record["cost"] = problem.cost
        if problem.pessimistic:
            record["pessimistic"] = True
        return json.dumps(record, indent=1, ensure_ascii=False) + "\n"

    @checks.takes(path=checks.path)
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``to_json`` to `path` atomically."""
        target = Path(path)
        if not target.name:
            raise PlanError("cannot write: not a valid file name", where=str(path))
        try:
            with whole_file(target) as draft:
                draft.write(self.to_json().encode("utf-8"))
        except OSError as error:
            raise out_of_room(error, path) or PlanError(
                f"cannot write: {error.strerror}", where=str(path)
            ) from error

    @classmethod
    def from_json(cls, text: str, problem: Problem, *, where: str = "plan") -> Plan:
        """Return a plan of `problem` from JSON text, validated.

        Raises
        ------
        PlanError
            If the text is not a plan, names unknown nodes or devices, was made for another problem,
            or is not a valid partition.
        """
        record = parse(text, where)
        made_for = record["problem"]
        if made_for["fingerprint"] != problem.fingerprint:
            raise PlanError(
                f"made for another problem ('{made_for['name']}'; this is '{problem.name}')",
                where=where,
                hint="the model, platform, costs or hetsim changed since: plan again",
            )
        ids = {name: node for node, name in enumerate(problem.node_names)}
        groups: list[Group] = []
        for entry in record["groups"]:
            unknown = [name for name in entry["nodes"] if name not in ids]
            if unknown:
                raise PlanError(
                    f"the problem has no node '{unknown[0]}'",
                    where=where,
                    hint=nearest(unknown[0], ids),
                )
            groups.append(Group(entry["device"], tuple(ids[name] for name in entry["nodes"])))
        dealt = record["schema"] == REPLICATED
        plan = cls(
            problem=problem,
            strategy=record["strategy"],
            groups=tuple(groups),
            reason=record["reason"],
            options=record["options"],
            sizes=_sizes(record["groups"], where) if dealt else (),
            deal=tuple(record["deal"]) if dealt else (),
        )
        plan._check(where)
        return plan


def parse(text: str, where: str) -> dict[str, Any]:
    """Return the plan's record. Raises PlanError if the text is not a hetsim plan."""
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise PlanError(
            f"not JSON: {error.msg}", where=f"{where}:{error.lineno}", hint="use a saved plan.json"
        ) from None
    except (ValueError, RecursionError) as error:
        # Numbers of thousands of digits, and unlimited nesting.
        raise PlanError(
            f"not a plan: {error}", where=where, hint="use a plan.json that hetsim wrote"
        ) from None
    schema = record.get("schema") if isinstance(record, dict) else None
    if not isinstance(record, dict) or schema not in (SCHEMA, REPLICATED):
        instead = f", but of {schema[:60]!r}" if isinstance(schema, str) else ""
        raise PlanError(
            f"not a plan of schema {SCHEMA} or {REPLICATED}{instead}",
            where=where,
            hint="use a plan.json that hetsim wrote",
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
        and (record["schema"] == SCHEMA or _has_deal(record))
    )


def _has_deal(record: dict[str, Any]) -> bool:
    numbers = [*record["deal"]] if isinstance(record.get("deal"), list) else [None]
    numbers += [group.get("replica") for group in record["groups"]]
    return all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers)


def _sizes(groups: Sequence[Mapping[str, Any]], where: str) -> tuple[int, ...]:
    """Return the number of groups by replica from groups that state theirs."""
    found = [group["replica"] for group in groups]
    if not found or found != sorted(found) or set(found) != set(range(found[-1] + 1)):
        raise PlanError("its groups are not sorted by replica", where=where)
    return tuple(found.count(index) for index in range(found[-1] + 1))
