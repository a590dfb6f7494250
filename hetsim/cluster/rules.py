"""Rules of a cluster file that go over several keys, and what breaks them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hetsim.cluster.commands import DEFAULT_PORT, RayStart, ray_starts
from hetsim.cluster.offers import LABEL_VALUE, RESOURCE_PREFIX
from hetsim.cluster.schema import ClusterModel, NodeTypeModel
from hetsim.errors import nearest
from hetsim.hardware.files.yaml_source import Complaint, Source, YamlPath

_PREFIX_LETTERS = RESOURCE_PREFIX.rstrip("_")


def complaints_of(source: Source, model: ClusterModel) -> list[Complaint]:
    """Return what is wrong with the provider, the node types and the mounts of a file."""
    return [
        *_provider_complaints(source, model),
        *_type_complaints(source, model),
        *_mount_complaints(source, model),
    ]


class Starts:
    """The ``ray start`` of the head and that of the workers, and what is wrong with them."""

    def __init__(self, source: Source, model: ClusterModel) -> None:
        self.complaints: list[Complaint] = []
        self.head = self._only(source, "head_start_ray_commands", model.head_start_ray_commands)
        self.workers = self._only(
            source, "worker_start_ray_commands", model.worker_start_ray_commands
        )
        self._check(source, model)

    def _only(self, source: Source, key: str, commands: Sequence[str]) -> RayStart | None:
        found: list[RayStart] = []
        for index, command in enumerate(commands):
            line = source.line((key, index))
            try:
                starts = ray_starts(command)
            except ValueError:
                self.complaints.append(Complaint(line, "quotes that are not closed", "close them"))
                continue
            found += starts
            for start in starts:
                self.complaints += [Complaint(line, what, hint) for what, hint in start.wrong]
        if commands and not found and not self.complaints:
            hint = "add a 'ray start', or leave the key out for Ray's own commands"
            self.complaints.append(Complaint(source.line((key,)), f"'{key}' starts no Ray", hint))
        return found[-1] if found else None

    def _check(self, source: Source, model: ClusterModel) -> None:
        head, workers = self.head, self.workers
        head_line = source.line(("head_start_ray_commands",))
        if head is not None and not head.head:
            self.complaints.append(
                Complaint(head_line, "the head's 'ray start' has no --head", "add --head")
            )
        if head is not None and not head.autoscaling:
            hint = "add --autoscaling-config=~/ray_bootstrap_config.yaml"
            self.complaints.append(
                Complaint(head_line, "the head is not told of the other nodes", hint)
            )
        if workers is None:
            return
        line = source.line(("worker_start_ray_commands",))
        hint = f"add --address=$RAY_HEAD_IP:{head.port if head and head.port else DEFAULT_PORT}"
        if workers.head or workers.address is None:
            what = "the workers' 'ray start' joins no head"
            self.complaints.append(Complaint(line, what, hint.replace("add", "use")))
            return
        port = workers.address.rpartition(":")[2]
        listens = str(DEFAULT_PORT) if head is None or head.port is None else head.port
        if port.isdecimal() and listens.isdecimal() and int(port) != int(listens):
            what = f"workers join at port {port}, and the head listens at {listens}"
            self.complaints.append(Complaint(line, what, hint.replace("add", "use")))


def _provider_complaints(source: Source, model: ClusterModel) -> Iterator[Complaint]:
    provider = model.provider
    if provider.type != "local":
        if model.min_workers is not None:
            yield Complaint(
                source.line(("min_workers",)),
                "'min_workers' of the whole cluster counts for the provider 'local' alone",
                "write it under a node type",
            )
        return
    line = source.line(("provider",))
    if provider.coordinator_address is None:
        if provider.head_ip is None:
            yield Complaint(line, "missing key 'provider.head_ip'", "add 'head_ip: ...'")
        if provider.worker_ips is None:
            yield Complaint(line, "missing key 'provider.worker_ips'", "add 'worker_ips: [...]'")
        for key in ("min_workers", "max_workers"):
            asked, ips = getattr(model, key), len(provider.worker_ips or ())
            if asked is not None and provider.worker_ips is not None and asked > ips:
                yield Complaint(
                    source.line((key,)),
                    f"'{key}' is {asked}, and there are {ips} worker_ips",
                    f"write {ips}, or add machines",
                )
    if model.available_node_types is not None:
        yield Complaint(
            source.line(("available_node_types",)),
            "node types do not go with the provider 'local'",
            "name resources in the commands that start Ray, or choose a provider of machines",
        )
    most, least = model.max_workers, model.min_workers
    if most is not None and least is not None and least > most:
        yield Complaint(
            source.line(("min_workers",)),
            f"'min_workers' is {least}, above max_workers, {most}",
            f"write at most {most}",
        )


def _type_complaints(source: Source, model: ClusterModel) -> Iterator[Complaint]:
    types = model.available_node_types
    if types is None:
        if model.head_node_type is not None:
            yield Complaint(
                source.line(("head_node_type",)),
                "'head_node_type' without 'available_node_types'",
                "add them, or leave it out",
            )
        return
    at: YamlPath = ("available_node_types",)
    if model.head_node_type is None:
        yield Complaint(source.line(at), "missing key 'head_node_type'", nearest("", types))
    elif model.head_node_type not in types:
        yield Complaint(
            source.line(("head_node_type",)),
            f"unknown node type '{model.head_node_type}'",
            nearest(model.head_node_type, types),
        )
    total = sum(node.min_workers for node in types.values())
    if model.max_workers is not None and total > model.max_workers:
        yield Complaint(
            source.line(("max_workers",)),
            f"'max_workers' is {model.max_workers}, and the node types start {total} workers",
            f"write {total} or more",
        )
    for name, node in types.items():
        if node.max_workers is not None and node.min_workers > node.max_workers:
            yield Complaint(
                source.line((*at, name, "min_workers")),
                f"'min_workers' is {node.min_workers}, above max_workers, {node.max_workers}",
                f"write at most {node.max_workers}",
            )
        yield from _offer_complaints(source, (*at, name), node)


def _offer_complaints(source: Source, at: YamlPath, node: NodeTypeModel) -> Iterator[Complaint]:
    for name, amount in node.resources.items():
        here = source.line((*at, "resources", name))
        if name.startswith(RESOURCE_PREFIX) and amount == 0:
            yield Complaint(here, f"'{name}' is 0: it offers nothing", f"write {name}: 1")
        elif name.startswith(_PREFIX_LETTERS) and not name.startswith(RESOURCE_PREFIX):
            device = name.removeprefix(_PREFIX_LETTERS).lstrip("-.: ")
            hint = f"did you mean '{RESOURCE_PREFIX}{device}'?"
            yield Complaint(here, f"'{name}' names no device", hint)
    for name, value in node.labels.items():
        if name.startswith(RESOURCE_PREFIX) and value != LABEL_VALUE:
            yield Complaint(
                source.line((*at, "labels", name)),
                f"the label '{name}' is '{value}': it offers nothing",
                f'write {name}: "{LABEL_VALUE}"',
            )


def _mount_complaints(source: Source, model: ClusterModel) -> Iterator[Complaint]:
    for there, here in model.file_mounts.items():
        if not Path(here).expanduser().exists():
            yield Complaint(
                source.line(("file_mounts", there)),
                f"no such file or folder '{here}'",
                "the path is relative to where `ray up` is called",
            )
