"""Affinity of nodes to devices: pins, exclusions and a default device, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hetsim.core import checks
from hetsim.errors import InvalidInput, UsageError, nearest
from hetsim.graph.model import LAYER_KEY
from hetsim.partitioning.regions import Regions
from hetsim.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Nodes that a device must not run.

    Attributes
    ----------
    device : str or None
        None: every device but the default.
    ops : tuple of str
        Op types.
    nodes : tuple of str
        Node names.
    """

    device: str | None = None
    ops: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Affinity:
    """Pins, exclusions and defaults by name, complete or partial.

    Attributes
    ----------
    pins : mapping of str to str
        Device by node name, in the canonical graph or in the user's file. A name of the file stands
        for all nodes made from it; if a node of the canonical graph has the same name, nodes pinned
        by their own names are excepted: pinning every node of the canonical graph places each one
        individually.
    exclude : tuple of Exclusion
    priority : tuple of str, or None
        Devices tried in order for nodes without a pin.
    default : str or None
        Device tried last. Without a `priority`, the only one.
    places : mapping of tuple to str
        Location of an entry, by ``("pins", node)``, ``("exclude", index)`` or ``(key,)``, for error
        messages.
    """

    pins: Mapping[str, str] = field(default_factory=dict)
    exclude: tuple[Exclusion, ...] = ()
    priority: tuple[str, ...] | None = None
    default: str | None = None
    places: Mapping[tuple[str | int, ...], str] = field(default_factory=dict)

    def on(self, problem: Problem) -> ResolvedAffinity:
        """Return the affinity with names resolved to nodes and devices.

        Raises
        ------
        InvalidInput
            For an unknown node, device or op type, with the nearest known one; or if nodes that
            were fused into one are pinned to different devices.

        Complexity: O(V + names).
        """
        self._check()
        names = _Names.of(problem)
        pins, vanished = self._pins(problem, names)
        excluded: list[tuple[int | None, tuple[int, ...], str]] = []
        for index, wish in enumerate(self.exclude):
            where = self.place("exclude", index)
            device_id = None if wish.device is None else _device(problem, wish.device, where)
            for op in wish.ops:
                chosen = tuple(v for v, own in enumerate(problem.op_types) if own == op)
                if not chosen:
                    check_op(problem, op, where)
                excluded.append((device_id, chosen, f"op {op} is excluded"))
            for name in wish.nodes:
                chosen = names.nodes(name, where)
                excluded.append((device_id, chosen, f"'{name}' is excluded"))
        priority = self.priority
        default = (
            None if self.default is None else _device(problem, self.default, self.place("default"))
        )
        if priority is not None:
            for name in priority:
                _device(problem, name, self.place("priority"))
        elif self.default is not None:
            priority = (self.default,)
        notes = (
            (
                f"{len(vanished)} pinned node{'s' * (len(vanished) > 1)} became constants or "
                f"vanished, first '{vanished[0]}'",
            )
            if vanished
            else ()
        )
        return ResolvedAffinity(pins, tuple(excluded), priority, default, notes)

    def _check(self) -> None:
        """Raise InvalidInput for a field of the wrong kind."""
        checks.mapping(checks.text, checks.text)(self.pins, "pins")
        checks.sequence(checks.instance(f"{__name__}:Exclusion"))(self.exclude, "exclude")
        for wish in self.exclude:
            checks.sequence(checks.text)(wish.ops, "the ops of an exclusion")
            checks.sequence(checks.text)(wish.nodes, "the nodes of an exclusion")
            if wish.device is not None:
                checks.text(wish.device, "the device of an exclusion")
        if self.priority is not None:
            checks.sequence(checks.text)(self.priority, "priority")
        if self.default is not None:
            checks.text(self.default, "default")

    def _pins(self, problem: Problem, names: _Names) -> tuple[dict[int, int], list[str]]:
        """Return the device of each pinned node, and the names whose nodes became constants."""
        pins: dict[int, int] = {}
        pinned_by: dict[int, str] = {}
        vanished: list[str] = []
        for name, device in self.pins.items():
            where = self.place("pins", name)
            column = _device(problem, device, where)
            if not names.nodes(name, where):
                vanished.append(name)
            own = names.own.get(name)
            if own is not None:
                pins[own] = column
                pinned_by[own] = name
        for name, device in self.pins.items():
            where = self.place("pins", name)
            column = _device(problem, device, where)
            for node in names.nodes(name, where):
                if pins.setdefault(node, column) == column:
                    pinned_by.setdefault(node, name)
                elif name not in names.own or pinned_by[node] != problem.node_names[node]:
                    raise InvalidInput(
                        f"'{name}' is pinned to '{device}' and '{pinned_by[node]}' to "
                        f"'{problem.devices[pins[node]]}', but optimization made both part of "
                        f"node '{problem.node_names[node]}'",
                        where=where,
                        hint="pin them to one device, or use a lower --canonical level",
                    )
        return pins, vanished

    def exclusions(self, problem: Problem) -> tuple[Exclusion, ...]:
        """Return the exclusions, with the devices implied by `default` filled in."""
        others = [name for name in problem.devices if name != self.default]
        return tuple(
            one
            for wish in self.exclude
            for one in (
                [wish]
                if self.default is None or wish.device is not None
                else [replace(wish, device=name) for name in others]
            )
        )

    def constraints(self, problem: Problem) -> dict[str, Any]:
        """Return ``pins`` and ``exclude`` if given, for planning verbs.

        Exclusions without a device do not apply to `default`. `priority` is ignored: it orders the
        devices of ``partition``, while strategies find their own order. Raises as ``on``.
        """
        self.on(problem)
        found = {"pins": dict(self.pins), "exclude": self.exclusions(problem)}
        return {name: value for name, value in found.items() if value}

    def place(self, *key: str | int) -> str:
        """Return the location of an entry, if known."""
        return self.places.get(key) or self.places.get(()) or "affinity"


@dataclass(frozen=True, slots=True)
class ResolvedAffinity:
    """Affinity in node ids and device indices of one problem."""

    pins: Mapping[int, int]
    excluded: tuple[tuple[int | None, tuple[int, ...], str], ...]
    priority: tuple[str, ...] | None
    default: int | None
    notes: tuple[str, ...]

    def restrict(self, regions: Regions, default: int) -> Regions:
        """Return the regions without excluded nodes; exclusions without a device spare `default`.

        A pin overrides an exclusion of the same node.
        """
        withdrawn: list[tuple[int, tuple[int, ...], str]] = []
        for device, nodes, why in self.excluded:
            for column in range(len(regions.problem.devices)):
                if column == device or (device is None and column != default):
                    kept = tuple(v for v in nodes if self.pins.get(v) != column)
                    withdrawn.append((column, kept, why))
        return regions.without(withdrawn)


@checks.takes(problem=checks.instance("hetsim.problem.problem:Problem"), configuration=checks.text)
def affinity_of_model(problem: Problem, configuration: str | None = None) -> Affinity:
    """Return the affinity with the pins stored as metadata of nodes in the user's file.

    Reads the metadata entry ``layer_ann`` and one device configuration; if a node has both they
    must agree.

    Parameters
    ----------
    problem : Problem
        Problem of a model.
    configuration : str, optional
        Name of the device configuration; absent: the only one that nodes refer to.

    Raises
    ------
    InvalidInput
        If the file has no such metadata, several configurations, or an entry that does not name
        exactly one device.
    """
    model = problem.model
    if model is None:
        raise InvalidInput(
            ("the problem is made from arrays: it has no file with metadata"), where=problem.name
        )
    used = list(dict.fromkeys(n.carrier for n in model.device_notes if n.carrier != LAYER_KEY))
    if configuration is None and len(used) > 1:
        raise InvalidInput(
            f"its nodes refer to several device configurations: {', '.join(used)}",
            where=model.source,
            hint="name the one to use",
        )
    if configuration is not None and configuration not in used:
        raise InvalidInput(
            f"none of its nodes refers to a device configuration '{configuration}'",
            where=model.source,
            hint=nearest(configuration, used),
        )
    pins: dict[str, str] = {}
    places: dict[tuple[str | int, ...], str] = {(): model.source}
    for note in model.device_notes:
        if note.carrier not in (LAYER_KEY, configuration or (used or [""])[0]):
            continue
        where = f"{model.source}, node '{note.node}', {note.carrier}"
        if len(note.devices) != 1:
            named = ", ".join(note.devices) or "none"
            raise InvalidInput(
                f"it must name exactly one device, but names {named}",
                where=where,
                hint="a node runs on one device; sharding is not simulated",
            )
        device = note.devices[0]
        if pins.setdefault(note.node, device) != device:
            raise InvalidInput(
                f"it names '{device}', but another entry of the node names '{pins[note.node]}'",
                where=where,
            )
        places["pins", note.node] = where
    if not pins:
        raise InvalidInput(
            "no node has a device in its metadata",
            where=model.source,
            hint=f"write it in the metadata entry '{LAYER_KEY}' or in a device configuration",
        )
    return Affinity(pins, places=places)


@dataclass(frozen=True, slots=True)
class _Names:
    """Resolution of names in one problem.

    Attributes
    ----------
    problem : Problem
    own : mapping of str to int
        Node by its own name.
    standing : mapping of str to tuple of int
        By name in the user's file: the nodes made from that node.
    folded : tuple of str
        Nodes of the file that became constants or were removed.
    """

    problem: Problem
    own: Mapping[str, int]
    standing: Mapping[str, tuple[int, ...]]
    folded: tuple[str, ...]

    @classmethod
    def of(cls, problem: Problem) -> _Names:
        standing: dict[str, list[int]] = {}
        for node, origins in enumerate(problem.origins):
            for name in origins:
                standing.setdefault(name, []).append(node)
        return cls(
            problem,
            {name: node for node, name in enumerate(problem.node_names)},
            {name: tuple(nodes) for name, nodes in standing.items()},
            problem.model.folded if problem.model is not None else (),
        )

    def nodes(self, name: str, where: str) -> tuple[int, ...]:
        """Return the nodes of a name: those made from it in the file, or the one that has it."""
        if name in self.standing:
            return self.standing[name]
        if name in self.own:
            return (self.own[name],)
        if name in self.folded:
            return ()
        raise InvalidInput(
            f"no node '{name}' in {self.problem.name}",
            where=where,
            hint=nearest(name, (*self.own, *self.standing, *self.folded)),
        )


def _device(problem: Problem, name: str, where: str) -> int:
    if name not in problem.devices:
        raise InvalidInput(
            f"no device '{name}' in {problem.name}",
            where=where,
            hint=nearest(name, problem.devices),
        )
    return problem.devices.index(name)


def with_wishes(
    affinity: Affinity | None,
    pins: Mapping[str, str] | None = None,
    exclude: Sequence[Exclusion] = (),
) -> Affinity | None:
    """Return an Affinity with separately given pins and exclusions added.

    Raises UsageError if both set the same thing.
    """
    given = {"pins": dict(pins or {}), "exclude": tuple(exclude)}
    given = {name: value for name, value in given.items() if value}
    if affinity is None:
        return Affinity(**given) if given else None  # type: ignore[arg-type]
    refuse_twice(given, {"pins": affinity.pins, "exclude": affinity.exclude})
    return replace(affinity, **given)  # type: ignore[arg-type]


def refuse_twice(given: Mapping[str, object], wished: Mapping[str, object]) -> None:
    """Raise UsageError where an affinity and a separate argument set the same thing."""
    for name in given:
        if given[name] and wished.get(name):
            raise UsageError(f"both 'affinity' and '{name}' set {name}", hint="leave one out")


def check_op(problem: Problem, op: str, where: str) -> None:
    """Raise InvalidInput for an op type unknown to the problem, ONNX and hetsim."""
    if op in problem.op_types:
        return
    import onnx.defs

    from hetsim.graph.work import ruled_ops

    standard = (s.name for s in onnx.defs.get_all_schemas() if s.domain == "")
    known = sorted({*problem.op_types, *standard, *ruled_ops()})
    if op not in known:
        raise InvalidInput(f"no op type '{op}'", where=where, hint=nearest(op, known))
