"""What computes on each side of a run: versions of this process, compared with a worker's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache

from hetsim.errors import ClusterError


@dataclass(frozen=True, slots=True)
class Versions:
    """What is installed where a process runs; None for what is not there.

    Attributes
    ----------
    python, hetsim, ray, onnxruntime, onnx, numpy : str or None
    code : str or None
        Digest of hetsim's source files: two checkouts of one version may differ.
    machine : str or None
        Instruction set, such as ``x86_64``.
    """

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
    """One thing that is not the same on a node.

    Attributes
    ----------
    name : str
        Field of ``Versions``.
    here, there : str or None
    refused : bool
        Whether it rules the node out.
    why : str
        What it does to a run.
    """

    name: str
    here: str | None
    there: str | None
    refused: bool
    why: str

    def __str__(self) -> str:
        what = _SHOWN.get(self.name, self.name)
        return f"{what} is {_said(self.there)} there, {_said(self.here)} here"


_SHOWN = {"code": "the source of hetsim", "machine": "the machine"}
_BITS = "other kernels give other last bits"
_RULES: Mapping[str, tuple[int | None, str]] = {
    # Parts of the version that must be equal, None for all of it; 0 for a note alone.
    "hetsim": (None, "driver and actors speak to each other in hetsim's own records"),
    "code": (None, "driver and actors speak to each other in hetsim's own records"),
    "onnxruntime": (None, _BITS),
    "python": (2, "Ray and pickled objects need one minor version"),
    "ray": (None, "Ray's processes need one version"),
    "numpy": (1, "arrays are pickled in another form"),
    "onnx": (0, "actors take compiled bytes and do not read models with it"),
    "machine": (0, _BITS),
}


def version_reader() -> Callable[[], dict[str, str | None]]:
    """Return a function that gives the fields of ``Versions`` for the process that calls it.

    It stands on the standard library alone and is pickled by value, so that it can also be
    sent to a process that has no hetsim, or another.
    """

    # Only a function within a function is pickled with its code.
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
    """Return the versions of this process. Reads hetsim's source files once a process."""
    return versions_of(version_reader()())


def versions_of(record: Mapping[str, str | None]) -> Versions:
    """Return what a ``version_reader`` told."""
    return Versions(**{field.name: record.get(field.name) for field in fields(Versions)})


def differences(here: Versions, there: Versions) -> tuple[Difference, ...]:
    """Return what differs between two processes, those that refuse first."""
    one, other = asdict(here), asdict(there)
    found = [
        Difference(name, one[name], other[name], _refused(one[name], other[name], parts), why)
        for name, (parts, why) in _RULES.items()
        if one[name] != other[name]
    ]
    if any(entry.name == "hetsim" for entry in found):
        # Another version is another source.
        found = [entry for entry in found if entry.name != "code"]
    return tuple(sorted(found, key=lambda entry: not entry.refused))


def check_versions(here: Versions, there: Versions, where: str) -> tuple[Difference, ...]:
    """Return what differs between a driver and a worker and may differ.

    Parameters
    ----------
    here, there : Versions
        Of the driver and of the worker.
    where : str
        What errors call the worker: ``device 'gpu'``, ``node 10.0.0.2``.

    Raises
    ------
    ClusterError
        Where hetsim (its version or its source), onnxruntime, the minor version of Python,
        ray or the major version of numpy differ: the run would fail, or its outputs would
        not be those of the whole model to the last bit.
    """
    found = differences(here, there)
    refused = [entry for entry in found if entry.refused]
    if refused:
        raise ClusterError(
            "; ".join(f"{entry} ({entry.why})" for entry in refused),
            where=where,
            hint=advice(found),
        )
    return found


def advice(found: tuple[Difference, ...]) -> str:
    """Return what to do about the differences that refuse."""
    steps: list[str] = []
    packages = [
        f"'{entry.name}=={entry.here}'"
        for entry in found
        if entry.refused and entry.name in ("onnxruntime", "ray", "numpy") and entry.here
    ]
    names = {entry.name for entry in found if entry.refused}
    if "python" in names:
        steps.append("use one minor version of Python everywhere")
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
