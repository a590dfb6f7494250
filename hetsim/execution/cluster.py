"""Devices on the nodes of a cluster: offers of its file and nodes, and matching versions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from hetsim.errors import ClusterError, InvalidInput, NotOffered, PlatformError, nearest
from hetsim.hardware.files.schema import broken
from hetsim.hardware.files.yaml_source import Complaint, YamlFile, YamlPath, read_yaml

RESOURCE_PREFIX = "hetsim_"
"""Prefix of resources: a node that offers ``hetsim_gpu`` takes the actor of device ``gpu``."""

LABEL_VALUE = "1"
"""Value of labels: a node with label ``hetsim_gpu=1`` takes the actor of device ``gpu``."""

SHARE = 0.001
"""Amount of a node's resource per actor: it only determines placement, without exclusion."""

Means = Literal["resource", "label"]


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """Machine of the cluster, as described by Ray."""

    id: str
    ip: str
    alive: bool
    resources: Mapping[str, float]
    labels: Mapping[str, str]

    @property
    def offers(self) -> dict[str, Means]:
        """Devices that the node offers."""
        return offers(self.resources, self.labels) if self.alive else {}


def offers(resources: Mapping[str, float], labels: Mapping[str, str]) -> dict[str, Means]:
    """Return the devices named by resources and labels, with which of the two names each."""
    found: dict[str, Means] = {}
    for name, value in labels.items():
        if name.startswith(RESOURCE_PREFIX) and value == LABEL_VALUE:
            found[name.removeprefix(RESOURCE_PREFIX)] = "label"
    for name, amount in resources.items():
        if name.startswith(RESOURCE_PREFIX) and amount > 0:
            found[name.removeprefix(RESOURCE_PREFIX)] = "resource"
    return dict(sorted(found.items()))


def nodes_of(records: Sequence[Mapping[str, Any]]) -> tuple[ClusterNode, ...]:
    """Return the nodes of ``ray.nodes()`` as records, living ones first."""
    nodes = [
        ClusterNode(
            record["NodeID"],
            record["NodeManagerAddress"],
            bool(record["Alive"]),
            dict(sorted(record.get("Resources", {}).items())),
            dict(sorted(record.get("Labels", {}).items())),
        )
        for record in records
    ]
    return tuple(sorted(nodes, key=lambda node: (not node.alive, node.ip, node.id)))


def on_node(kind: Any, node_id: str, **options: Any) -> Any:
    """Return a function or class as a Ray task or actor placed on one node."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    where = NodeAffinitySchedulingStrategy(node_id, soft=False)
    return ray.remote(kind).options(num_cpus=0, scheduling_strategy=where, **options)


def actor_options(
    devices: Sequence[str], nodes: Sequence[ClusterNode]
) -> dict[str, dict[str, Any]]:
    """Return Ray's options that place the actor of each device.

    Empty if no living node offers any device. Raises NotOffered if some devices have a node and
    others have none, as Ray would wait forever.
    """
    means: dict[str, Means] = {}
    for node in nodes:
        for device, how in node.offers.items():
            if how == "resource" or device not in means:
                means[device] = how
    if not means:
        return {device: {} for device in devices}
    missing = [device for device in devices if device not in means]
    if missing:
        raise not_offered(missing)
    options: dict[Means, Any] = {
        "resource": lambda name: {"resources": {name: SHARE}},
        "label": lambda name: {"label_selector": {name: LABEL_VALUE}},
    }
    return {device: options[means[device]](RESOURCE_PREFIX + device) for device in devices}


def full(
    devices: Sequence[str], nodes: Sequence[ClusterNode], available: Mapping[str, float]
) -> list[str]:
    """Return the devices whose resource is used up by others on every node that offers it."""
    found = []
    for device in devices:
        means = {node.offers[device] for node in nodes if device in node.offers}
        if means and "resource" in means and available.get(RESOURCE_PREFIX + device, 0.0) < SHARE:
            found.append(device)
    return found


def not_offered(
    devices: Sequence[str],
    what: str = "no node of the Ray cluster offers {}",
    hint: str = "start a node with --resources='{{\"{}\": 1}}'",
    where: str | None = None,
) -> NotOffered:
    """Return the error for devices without a node; resources fill the blanks."""
    names = [f"{RESOURCE_PREFIX}{device}" for device in devices]
    said = what.format(", ".join(f"'{name}'" for name in names))
    return NotOffered(said, where=where, hint=hint.format(names[0]), devices=tuple(devices))


def used_up(devices: Sequence[str], where: str | None = None) -> NotOffered:
    """Return the error for devices whose nodes other jobs use."""
    return not_offered(
        devices,
        "other jobs use {} on every node that offers it",
        "end them, or start another node that offers it",
        where,
    )


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions installed on a process's machine; None for missing ones."""

    python: str | None
    hetsim: str | None
    code: str | None
    ray: str | None
    onnxruntime: str | None
    onnx: str | None
    numpy: str | None
    machine: str | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between a node and this process."""

    name: str
    here: str | None
    there: str | None
    refused: bool
    why: str

    def __str__(self) -> str:
        what = _SHOWN.get(self.name, self.name)
        return f"{what} is {_said(self.there)} there, {_said(self.here)} here"


_SHOWN = {"code": "the source of hetsim", "machine": "the machine"}
_BITS = "other CPU kernels may change the last bits"
_RULES: Mapping[str, tuple[int | None, str]] = {
    # Number of leading parts of the version that must be equal, None for all; 0 for a note only.
    "hetsim": (None, "driver and actors exchange hetsim's own records"),
    "code": (None, "driver and actors exchange hetsim's own records"),
    "onnxruntime": (None, _BITS),
    "python": (2, "Ray and pickled objects need the same minor version"),
    "ray": (None, "Ray's processes need the same version"),
    "numpy": (1, "the pickle format of arrays differs"),
    "onnx": (0, "actors need it only for compiled bytes, not for models"),
    "machine": (0, _BITS),
}


def version_reader() -> Callable[[], dict[str, str | None]]:
    """Return a function that reports the versions where it is called.

    Pickled by value, so that it also runs in a process with another hetsim, or none.
    """

    # Only nested functions are pickled with their code.
    def read() -> dict[str, str | None]:
        import hashlib
        import importlib
        import importlib.metadata
        import platform
        from pathlib import Path

        def installed(name: str) -> str | None:
            try:
                return importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                return None

        found: dict[str, str | None] = {
            "python": platform.python_version(),
            "machine": platform.machine() or None,
            "hetsim": None,
            "code": None,
            **{name: installed(name) for name in ("ray", "onnxruntime", "onnx", "numpy")},
        }
        try:
            package = importlib.import_module("hetsim")
        except ImportError:
            return found
        found["hetsim"] = getattr(package, "__version__", None)
        digest = hashlib.sha256()
        for folder in map(Path, package.__path__):
            for file in sorted(folder.rglob("*.py"), key=lambda file: file.parts):
                digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
                digest.update(hashlib.sha256(file.read_bytes()).digest())
        found["code"] = digest.hexdigest()[:12]
        return found

    return read


@cache
def own_versions() -> Versions:
    """Return the versions of this process. Reads hetsim's source files once per process."""
    return versions_of(version_reader()())


def versions_of(record: Mapping[str, str | None]) -> Versions:
    """Return the versions reported by a ``version_reader``."""
    return Versions(**{field.name: record.get(field.name) for field in fields(Versions)})


def differences(here: Versions, there: Versions) -> tuple[Difference, ...]:
    """Return the differences between two processes, refusing ones first."""
    one, other = asdict(here), asdict(there)
    found = [
        Difference(name, one[name], other[name], _refused(one[name], other[name], parts), why)
        for name, (parts, why) in _RULES.items()
        if one[name] != other[name]
    ]
    if any(entry.name == "hetsim" for entry in found):
        # Another version implies another source.
        found = [entry for entry in found if entry.name != "code"]
    return tuple(sorted(found, key=lambda entry: not entry.refused))


def check_versions(here: Versions, there: Versions, where: str) -> None:
    """Raise ClusterError, at `where`, for differences that would fail a run or change its bits."""
    found = differences(here, there)
    refused = [entry for entry in found if entry.refused]
    if refused:
        raise ClusterError(
            "; ".join(f"{entry} ({entry.why})" for entry in refused),
            where=where,
            hint=remedy(found),
        )


def remedy(found: tuple[Difference, ...]) -> str:
    """Return the remedy for refusing differences."""
    steps: list[str] = []
    packages = [
        f"'{entry.name}=={entry.here}'"
        for entry in found
        if entry.refused and entry.name in ("onnxruntime", "ray", "numpy") and entry.here
    ]
    names = {entry.name for entry in found if entry.refused}
    if "python" in names:
        steps.append("use the same minor version of Python everywhere")
    if packages:
        steps.append(f"pip install {' '.join(packages)} there")
    if names & {"hetsim", "code"}:
        steps.append("install this hetsim there")
    return ", and ".join(steps)


def _refused(here: str | None, there: str | None, parts: int | None) -> bool:
    if parts is None or here is None or there is None:
        return parts != 0
    return here.split(".")[:parts] != there.split(".")[:parts]


def _said(version: str | None) -> str:
    return version or "absent"


_EXTRA = re.compile(r"\('(.+?)'.* unexpected\)")


@dataclass(frozen=True, slots=True)
class NodeType:
    """Kind of node that the file starts."""

    name: str
    least: int
    offers: dict[str, Means]
    stated: bool
    line: int


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """Cluster file: name in errors, own name, provider, and node types with the head's first."""

    shown: str
    name: str
    provider: str
    node_types: tuple[NodeType, ...]


def read_cluster_file(given: str) -> tuple[ClusterFile | None, tuple[InvalidInput, ...]]:
    """Return the content of the file at the path `given`, or all of its errors."""
    try:
        source = read_yaml(Path(given), given, holds="a Ray cluster")
    except PlatformError as error:
        return None, (error,)
    wrong = broken(source, _of_schema(source)) or broken(source, _of_offers(source))
    if wrong is not None:
        return None, wrong.each
    data: Mapping[str, Any] = source.data
    types = tuple(_node_types(source, data))
    return ClusterFile(given, data["cluster_name"], data["provider"]["type"], types), ()


def _of_schema(source: YamlFile) -> Iterator[Complaint]:
    """Yield violations of Ray's own schema."""
    from jsonschema import Draft7Validator

    ray = find_spec("ray")
    if ray is None or ray.origin is None:
        raise PlatformError("ray is not installed", hint="pip install ray")
    schema = json.loads((Path(ray.origin).parent / "autoscaler" / "ray-schema.json").read_text())
    # The launcher removes this key for on-premise machines before checking, and adds defaults.
    schema["properties"]["min_workers"] = {"type": "integer", "minimum": 0}
    schema["properties"]["available_node_types"]["patternProperties"][".*"]["required"] = []
    for error in Draft7Validator(schema).iter_errors(source.data):
        path: YamlPath = tuple(error.absolute_path)
        extra = _EXTRA.search(error.message)
        if error.validator == "additionalProperties" and extra is not None:
            known = sorted(error.schema.get("properties", ()))
            what = f"unknown key '{extra[1]}'"
            yield Complaint(source.line((*path, extra[1])), what, nearest(extra[1], known))
        else:
            at = f"'{'.'.join(map(str, path))}': " if path else ""
            yield Complaint(source.line(path), f"{at}{error.message}")


def _of_offers(source: YamlFile) -> Iterator[Complaint]:
    """Yield faults by which no node, or the wrong one, would be used for a device."""
    data: Mapping[str, Any] = source.data
    types = data.get("available_node_types")
    at: YamlPath
    if types is not None and data.get("head_node_type") not in types:
        head = data.get("head_node_type")
        what = "missing key 'head_node_type'" if head is None else f"unknown node type '{head}'"
        at = ("available_node_types",) if head is None else ("head_node_type",)
        yield Complaint(source.line(at), what, nearest(str(head or ""), types))
    for name, node in (types or {}).items():
        at = ("available_node_types", name)
        for resource, amount in node.get("resources", {}).items():
            if resource.startswith(RESOURCE_PREFIX) and not amount:
                line = source.line((*at, "resources", resource))
                yield Complaint(line, f"'{resource}' is 0: it offers nothing", "write 1")
        for label, value in node.get("labels", {}).items():
            if label.startswith(RESOURCE_PREFIX) and str(value) != LABEL_VALUE:
                line = source.line((*at, "labels", label))
                what = f"the label '{label}' is '{value}': it offers nothing"
                yield Complaint(line, what, f'write {label}: "{LABEL_VALUE}"')


def _node_types(source: YamlFile, data: Mapping[str, Any]) -> Iterator[NodeType]:
    """Yield node types, the head's first; for on-premise machines, the head and the workers.

    Offers of on-premise machines are stated where each is started, if at all.
    """
    types = data.get("available_node_types")
    if types is None:
        workers = data.get("min_workers", len(data["provider"].get("worker_ips") or ()))
        for name, key, least in (("head", "head", 1), ("workers", "worker", workers)):
            line = source.line((f"{key}_start_ray_commands",))
            yield NodeType(name, least, {}, False, line)
        return
    head = data["head_node_type"]
    for name in sorted(types, key=lambda name: name != head):
        node = types[name]
        labels = {key: str(value) for key, value in node.get("labels", {}).items()}
        found = offers(node.get("resources", {}), labels)
        least = max(node.get("min_workers", 0), int(name == head))
        yield NodeType(name, least, found, True, source.line(("available_node_types", name)))


State = Literal["node", "on demand", "unstated", "anywhere", "full", "none"]
"""Placement state of a device's actor.

``node``: a node offers it. ``on demand``: a node type offers it, but none is started. ``unstated``:
machines state their offers when started, so only a live cluster knows. ``anywhere``: no node is
assigned to any device, so actors go anywhere. ``full``: others have used up the resource on every
node that offers it. ``none``: nothing offers it.
"""

SERVED: frozenset[State] = frozenset({"node", "unstated", "anywhere"})
"""States of a device in which a run may succeed."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Node type for the actor of a device."""

    device: str
    state: State
    nodes: tuple[str, ...]


def seats_of_file(cluster: ClusterFile, devices: Sequence[str] | None) -> tuple[Seat, ...]:
    """Return the file's node for each given device, or for each device that the file names."""
    started = [kind for kind in cluster.node_types if kind.least > 0]
    every = sorted({device for kind in cluster.node_types for device in kind.offers})
    unstated = [kind for kind in started if not kind.stated]
    bound = any(kind.offers for kind in started)
    seats = []
    for device in every if devices is None else devices:
        nodes = tuple(kind.name for kind in started if device in kind.offers)
        asked = tuple(kind.name for kind in cluster.node_types if device in kind.offers)
        if nodes:
            seats.append(Seat(device, "node", nodes))
        elif unstated:
            seats.append(Seat(device, "unstated", tuple(kind.name for kind in unstated)))
        elif asked:
            seats.append(Seat(device, "on demand", asked))
        else:
            seats.append(Seat(device, "none" if bound else "anywhere", ()))
    return tuple(seats)


def unknown_devices(cluster: ClusterFile, devices: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return (node type, device) for offers without a device of the platform."""
    return tuple(
        (kind.name, device)
        for kind in cluster.node_types
        for device in kind.offers
        if device not in devices
    )


def refuse_unserved(seats: Sequence[Seat], where: str) -> None:
    """Raise an error if a device has no node."""
    states = {seat.device: seat.state for seat in seats if seat.state not in SERVED}
    if not states:
        return
    if set(states.values()) == {"full"}:
        raise used_up(tuple(states), where)
    if set(states.values()) == {"on demand"}:
        raise not_offered(
            tuple(states),
            "no node that offers {} is started",
            "write 'min_workers: 1' under its node type",
            where,
        )
    missing = [device for device, state in states.items() if state != "full"]
    error = not_offered(missing, "no node offers {}", where=where)
    if not any(seat.nodes for seat in seats):
        error = replace(error, hint=f"{error.hint}, or remove all '{RESOURCE_PREFIX}...'")
    raise error
