"""What the workers of a job on Ray import: hetsim as the driver has it, nothing of its folders."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hetsim.base.scratch import scratch_folder
from hetsim.errors import ClusterError
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.version import package_folder

_SUBMITTED = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Set where this process is a job that was submitted to a cluster, which has its own folder."""


@contextlib.contextmanager
def code_environment() -> Iterator[dict[str, Any]]:
    """Give the ``runtime_env`` for ``ray.init`` that brings this hetsim to every node.

    Ray stores the package once in the cluster, fetches it once a node, and puts it before
    what is installed there; the packages that hetsim needs must be installed on the nodes.
    Ray takes it for a whole job alone, not for one actor. Workers run in an empty folder: where
    ``PYTHONPATH`` is set but empty on a node, Ray appends an empty entry to it, which stands for
    the working directory, by default the one in which the node was started.
    """
    with scratch_folder() as folder:
        environment: dict[str, Any] = {
            "py_modules": [str(_package(folder))],
            "excludes": ["__pycache__"],
        }
        if _SUBMITTED not in os.environ:
            empty = folder / "empty"
            empty.mkdir()
            (empty / "README").write_text("The working directory of hetsim's workers.\n")
            environment["working_dir"] = str(empty)
        yield environment


def _package(folder: Path) -> Path:
    """Return the package with its catalog, as in a wheel; from a checkout, made in `folder`."""
    package, catalog = package_folder(), catalog_folder()
    if catalog.is_relative_to(package):
        return package
    whole = folder / package.name
    inside = whole / "hardware"
    inside.mkdir(parents=True)
    for of, to in ((package, whole), (package / inside.name, inside)):
        for entry in of.iterdir():
            if entry.name not in (inside.name, "__pycache__"):
                (to / entry.name).symlink_to(entry)
    (inside / catalog.name).symlink_to(catalog)
    return whole


@contextlib.contextmanager
def job_apart() -> Iterator[Any]:
    """Give the ``job_config`` for ``ray.init`` that keeps the driver's folders off workers' paths.

    By default Ray puts the working directory and the script's folder at the front of every
    worker's search path, and under ``uv run`` sends the working directory to each node.

    Raises ClusterError where the installed Ray still adds one of them.
    """
    from ray.job_config import JobConfig

    constants: Any = importlib.import_module("ray._private.ray_constants")
    worker: Any = importlib.import_module("ray._private.worker")

    class JobApart(JobConfig):
        def _serialize(self) -> Any:
            self._py_driver_sys_path: list[str] = []
            return super()._serialize()

    replicated = getattr(constants, "RAY_ENABLE_UV_RUN_RUNTIME_ENV", False)
    constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV = False
    try:
        yield JobApart()
    finally:
        constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV = replicated
    path = worker.global_worker.core_worker.get_job_config().py_driver_sys_path
    if path:
        raise ClusterError(
            f"the installed Ray has workers import from {', '.join(path)}",
            hint="run with the executor 'processes' or 'threads' instead",
        )
