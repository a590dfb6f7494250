"""Ray's object store that ends: shared memory, and the disk that it spills to."""

from __future__ import annotations

from hetsim.errors import OutOfRoom


def out_of_store(error: BaseException, what: str, nbytes: int = 0) -> OutOfRoom | None:
    """Return what to say where `error` of Ray's means that its store is full; None of any other.

    Parameters
    ----------
    error : exception
    what : str
        What was to be stored.
    nbytes : int
        What it takes, where that is known.
    """
    from ray.exceptions import ObjectStoreFullError, OutOfDiskError

    if isinstance(error, OutOfDiskError):
        full, short_of = (
            "Ray's object store, and the disk that it moves values to, are full",
            "disk",
        )
    elif isinstance(error, ObjectStoreFullError):
        full, short_of = "Ray's object store is full", "memory"
    else:
        return None
    size = f"{what} of {nbytes} bytes" if nbytes else what
    return OutOfRoom(
        f"{size} cannot be stored: {full}",
        hint="let fewer requests be in flight, give Ray a larger object store, or make room there",
        short_of=short_of,
        needed_bytes=nbytes,
    )
