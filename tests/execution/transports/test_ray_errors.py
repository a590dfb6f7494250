"""What Ray's errors are taken for: of the call, of the device, of its node, of what it reads."""

from __future__ import annotations

import pytest
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    NodeDiedError,
    ObjectLostError,
    ObjectReconstructionFailedError,
    ObjectStoreFullError,
    OutOfDiskError,
    OutOfMemoryError,
    RayError,
    RayTaskError,
)

from hetsim.errors import DeviceLost, ExecutionError, OutOfRoom
from hetsim.execution.ray_tasks import _cause as spread_cause
from hetsim.execution.transports.ray_actor import (
    fault_of,
    node_may_be_gone,
    out_of_store,
    translated,
)

LOST = "0" * 56
RECONSTRUCTED = ObjectReconstructionFailedError(LOST, owner_address=b"", call_site="")


def task_error(cause: Exception) -> RayTaskError:
    return RayTaskError("run", f"a traceback\n{type(cause).__name__}: {cause}", cause)


@pytest.mark.parametrize(
    ("error", "kind", "values_lost"),
    [
        (task_error(ExecutionError("indices out of bounds", where="g1")), "kernel", False),
        (task_error(ExecutionError("Failed to allocate memory for 1 GB")), "out of memory", False),
        (task_error(ValueError("no")), "kernel", False),
        (task_error(ObjectLostError(LOST, b"", "")), "lost input", False),
        (RECONSTRUCTED, "lost input", False),
        (OutOfMemoryError("killed: the node runs low on memory"), "out of memory", False),
        (ActorUnavailableError("The actor is unreachable", None), "died", True),
        (NodeDiedError("The node died"), "died", True),
        (ActorDiedError(), "died", True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)  # fmt: skip
def test_kinds(error: RayError, kind: str, values_lost: bool) -> None:
    found = fault_of(error, "gpu", ("a", "b"))
    assert (found.kind, found.values_lost) == (kind, values_lost)
    assert found.lost == (("a", "b") if kind == "lost input" else ())
    if not isinstance(error, RayTaskError) and kind in ("died", "out of memory"):
        assert isinstance(found.error, DeviceLost)
        assert (found.error.device, found.error.kind) == ("gpu", kind)


@pytest.mark.parametrize(
    ("error", "short_of"),
    [(OutOfDiskError("full"), "disk"), (ObjectStoreFullError("full"), "memory")],
)
@pytest.mark.parametrize("within", [False, True])
def test_a_full_store_is_no_mistake_of_the_device(
    error: RayError, short_of: str, within: bool
) -> None:
    told = translated(task_error(error) if within else error, "gpu")
    assert isinstance(told, OutOfRoom)
    assert (told.short_of, told.where) == (short_of, "device 'gpu'")
    assert "what it made cannot be stored: Ray's object store" in told.what
    assert "larger object store" in str(told)
    assert out_of_store(OutOfMemoryError("killed"), "x") is None
    spread = spread_cause(task_error(error))
    assert isinstance(spread, OutOfRoom)
    assert "what the work gave cannot be stored" in spread.what


@pytest.mark.parametrize(
    ("said", "gone"),
    [
        ("The actor is dead because it was killed by `ray.kill`.", False),
        ("The actor is dead because its worker process has died.", False),
        ("The actor died because its node has died. Node Id: 0af1", True),
        ("The actor died for an unknown reason", True),
    ],
)  # fmt: skip
def test_values_outlive_a_process_and_not_a_node(said: str, gone: bool) -> None:
    class Died(ActorDiedError):
        def __str__(self) -> str:
            return said

    assert node_may_be_gone(Died()) is gone
