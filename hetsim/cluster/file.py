"""A file of Ray's cluster launcher read without Ray: what it starts, and all that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hetsim.cluster.commands import image_pins, pins
from hetsim.cluster.offers import Means, offers
from hetsim.cluster.rules import Starts, complaints_of
from hetsim.cluster.schema import ClusterModel, NodeTypeModel
from hetsim.errors import InvalidInput, PlatformError
from hetsim.hardware.files.complaints import broken, parse
from hetsim.hardware.files.yaml_source import Complaint, Source, YamlPath, read_yaml


@dataclass(frozen=True, slots=True)
class NodeType:
    """One kind of node that the file starts.

    Attributes
    ----------
    name : str
        As the file calls it; ``head`` and ``workers`` where it has no names.
    least : int
        How many start without being asked for.
    offers : mapping of str to "resource" or "label"
        The devices that it stands for.
    stated : bool
        False where the machines themselves say a part of what they offer.
    line : int
    """

    name: str
    least: int
    offers: dict[str, Means]
    stated: bool
    line: int


@dataclass(frozen=True, slots=True)
class Pin:
    """An exact version that the file installs, ``1.31.*`` for any of its kind."""

    package: str
    version: str
    line: int


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """What a cluster file says.

    Attributes
    ----------
    shown : str
        Its name in errors.
    name, provider : str
    node_types : tuple of NodeType
        The head's first.
    pins : tuple of Pin
        By line.
    """

    shown: str
    name: str
    provider: str
    node_types: tuple[NodeType, ...]
    pins: tuple[Pin, ...]


def read_cluster_file(given: str) -> tuple[ClusterFile | None, tuple[InvalidInput, ...]]:
    """Read the file at the path `given`: what it says, or everything that is wrong with it.

    Complexity: linear in the file.
    """
    try:
        source = read_yaml(Path(given), given, holds="a Ray cluster")
    except PlatformError as error:
        return None, (error,)
    model, complaints = parse(ClusterModel, source, source.data)
    if model is None:
        wrong = broken(source, complaints)
        return None, () if wrong is None else wrong.each
    starts = Starts(source, model)
    found_pins, complaints = _pins(source, model)
    wrong = broken(source, [*starts.complaints, *complaints_of(source, model), *complaints])
    if wrong is not None:
        return None, wrong.each
    types = _node_types(source, model, starts)
    return ClusterFile(given, model.cluster_name, model.provider.type, types, found_pins), ()


def _node_types(source: Source, model: ClusterModel, starts: Starts) -> tuple[NodeType, ...]:
    def made(name: str, least: int, node: NodeTypeModel | None, path: YamlPath) -> NodeType:
        start = starts.head if name == head else starts.workers
        resources = {**(start.resources if start else {}), **(node.resources if node else {})}
        labels = {**(start.labels if start else {}), **(node.labels if node else {})}
        stated = start is None or start.stated
        return NodeType(name, least, offers(resources, labels), stated, source.line(path))

    if model.available_node_types is None:
        head = "head"
        ips = len(model.provider.worker_ips or ())
        least = ips if model.min_workers is None else model.min_workers
        return (
            made("head", 1, None, ("head_start_ray_commands",)),
            made("workers", least, None, ("worker_start_ray_commands",)),
        )
    head = model.head_node_type or ""
    types = sorted(model.available_node_types.items(), key=lambda item: item[0] != head)
    return tuple(
        made(name, max(node.min_workers, int(name == head)), node, ("available_node_types", name))
        for name, node in types
    )


def _pins(source: Source, model: ClusterModel) -> tuple[tuple[Pin, ...], list[Complaint]]:
    """Return the pins, and a complaint for each package that is pinned to two versions."""
    found: list[Pin] = []
    complaints: list[Complaint] = []
    for path, command in _setup(model):
        line = source.line(path)
        try:
            found += [Pin(package, version, line) for package, version in pins(command)]
        except ValueError:
            complaints.append(Complaint(line, "quotes that are not closed", "close them"))
    for key in ("image", "head_image", "worker_image"):
        image = model.docker.get(key)
        if isinstance(image, str):
            line = source.line(("docker", key))
            found += [Pin(package, version, line) for package, version in image_pins(image)]
    found.sort(key=lambda pin: (pin.line, pin.package))
    first: dict[str, Pin] = {}
    for pin in found:
        other = first.setdefault(pin.package, pin)
        if other.version != pin.version:
            what = f"{pin.package} {pin.version}, and {other.version} on line {other.line}"
            complaints.append(Complaint(pin.line, what, "install one version on all nodes"))
    return tuple(found), complaints


def _setup(model: ClusterModel) -> Iterator[tuple[YamlPath, str]]:
    for key in ("setup_commands", "head_setup_commands", "worker_setup_commands"):
        for index, command in enumerate(getattr(model, key)):
            yield (key, index), command
    for name, node in (model.available_node_types or {}).items():
        for index, command in enumerate(node.worker_setup_commands):
            yield ("available_node_types", name, "worker_setup_commands", index), command
