"""A deployment as the YAML file that describes it."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from hetsim.workload.autoscaling import Autoscaling
from hetsim.workload.deployment import (
    Deployment,
    DynamicBatching,
    Instances,
    QueuePolicy,
    Served,
)


def deployment_yaml(deployment: Deployment, folder: str | os.PathLike[str], about: str = "") -> str:
    """Return the text of a deployment file in `folder`; what is as if absent is left out.

    Models and plans are written as paths from there; `about` is a comment on top.
    """
    base = Path(folder)
    models = [_served(served, base) for served in deployment.models]
    text = yaml.safe_dump({"models": models}, sort_keys=False, width=100, allow_unicode=True)
    head = "".join(f"# {line}\n" for line in about.splitlines())
    return head + text


def _served(served: Served, base: Path) -> dict[str, Any]:
    plain = Served(served.model)
    found: dict[str, Any] = {"model": _path(served.model, base), "strategy": served.strategy}
    for key in ("batch_dim", "routing", "priority_levels", "default_priority_level", "loading"):
        if getattr(served, key) != getattr(plain, key):
            found[key] = getattr(served, key)
    if served.batch_sizes:
        found["batch_sizes"] = list(served.batch_sizes)
    if served.instances != plain.instances:
        found["instances"] = [_instances(entry, base) for entry in served.instances]
    policy, batching = served.queue_policy, served.dynamic_batching
    if policy != QueuePolicy():
        found["queue_policy"] = _changed(policy, QueuePolicy())
    if batching is not None:
        found["dynamic_batching"] = {
            "max_batch_size": batching.max_batch_size,
            **_changed(batching, DynamicBatching(batching.max_batch_size)),
        }
    if served.autoscaling is not None:
        found["autoscaling"] = _changed(served.autoscaling, Autoscaling())
    return found


def _instances(entry: Instances, base: Path) -> dict[str, Any]:
    found = _changed(entry, Instances())
    if entry.plan is not None:
        found["plan"] = _path(entry.plan, base)
    return found


def _changed(one: Any, plain: Any) -> dict[str, Any]:
    """What of a record differs from another, lists in the place of tuples."""
    found = {}
    for key in (field.name for field in fields(one)):
        value = getattr(one, key)
        if value != getattr(plain, key):
            found[key] = list(value) if isinstance(value, tuple) else value
    return found


def _path(given: str, base: Path) -> str:
    """A path as a file in `base` names it: from there where it is not absolute itself."""
    if given.startswith("zoo:") or os.path.isabs(given):
        return given
    return os.path.relpath(given, base)
