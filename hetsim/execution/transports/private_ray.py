"""A Ray that is started here, for this process alone, and that leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path

from hetsim.base.room import no_room_in, out_of_room
from hetsim.base.threads import begun
from hetsim.errors import ClusterError
from hetsim.execution.transports.abandoned import (
    INSIDE,
    TEMP_PREFIX,
    end_abandoned,
    owned,
)
from hetsim.execution.transports.interrupts import (
    ending_waits,
    ending_waits_for_starting,
    hangup_ends,
    held_interrupts,
    termination_kept,
)
from hetsim.execution.transports.processes import (
    Process,
    command_line,
    descendants,
    end_all,
    naming,
)
from hetsim.execution.transports.ray_loss import Losing, vital_processes_watched
from hetsim.execution.transports.ray_settings import (
    private_environment,
    protected,
    restored,
)
from hetsim.execution.transports.ray_starting import started_apart
from hetsim.execution.transports.shipped_code import job_apart

_SMALLEST_STORE_BYTES = 128 * 2**20
_SHARED_MEMORY = Path("/dev/shm")
_SOCKET_PATH_LIMIT = 107
_SOCKET_BELOW_TEMP = len("/session_2000-01-01_00-00-00_000000_4194304/sockets/plasma_store")
_EXIT_GRACE_S = 5.0
_FILES_BYTES = 2**22
"""Of logs and sockets of a Ray that runs for a while."""
_ELSEWHERE = "make room there, or run with the executor 'threads' instead"


@contextlib.contextmanager
def private_ray(
    store_bytes: int, plasma_dir: str | os.PathLike[str] | None, cpus: int, namespace: str
) -> Iterator[tuple[Path, Losing]]:
    """Give the folder of all files of a new Ray, and what says whether it is lost meanwhile.

    Parameters
    ----------
    store_bytes : int
        Of its object store; no less than Ray itself asks for.
    plasma_dir : path, optional
        Where that lies; absent: as ``plasma_directory`` says.
    cpus : int
    namespace : str

    Raises
    ------
    ClusterError
        Where Ray does not start.
    """
    base = temp_base((tempfile.gettempdir(), "/tmp", "/var/tmp"))
    with restored(private_environment()), protected(), ExitStack() as ending:
        end_abandoned(Path(base))
        room = max(store_bytes, _SMALLEST_STORE_BYTES)
        with held_interrupts(), termination_kept():
            started = _started(Path(base), room, plasma_dir, cpus, namespace)
            temp, losing = ending.enter_context(started)
        with hangup_ends():
            yield temp, losing


@contextlib.contextmanager
def _started(
    base: Path,
    store_bytes: int,
    plasma_dir: str | os.PathLike[str] | None,
    cpus: int,
    namespace: str,
) -> Iterator[tuple[Path, Losing]]:
    import ray

    losing = Losing()
    with _owned_folder(base) as temp, ExitStack() as ending:
        files = temp / INSIDE
        store = plasma_dir or plasma_directory(store_bytes, _free_bytes(_SHARED_MEMORY), files)
        _check_room(base, _FILES_BYTES + (store_bytes if store == files else 0))
        over = threading.Event()
        ending.callback(over.set)

        def start() -> None:
            with ending_waits_for_starting(), started_apart(files), job_apart() as job:
                ray.init(
                    address="local",
                    job_config=job,
                    namespace=namespace,
                    # A resource of Ray's scheduler, not a limit.
                    num_cpus=cpus,
                    object_store_memory=store_bytes,
                    include_dashboard=False,
                    log_to_driver=False,
                    configure_logging=False,
                    _temp_dir=str(files),
                    _plasma_directory=str(store),
                    _skip_env_hook=True,
                )

        try:
            try:
                _on_a_lasting_thread(start, over)
            except Exception as error:
                raise ClusterError(
                    f"Ray does not start: {_line(error)}",
                    hint="run with the executor 'threads' instead",
                ) from error
            with vital_processes_watched(_started_below(temp), losing):
                yield temp, losing
        finally:
            _end(temp, losing)


@contextlib.contextmanager
def _owned_folder(base: Path) -> Iterator[Path]:
    """Give a new folder in `base` with room for Ray's files, gone at the end."""
    with ExitStack() as ending:
        try:
            temp = Path(tempfile.mkdtemp(prefix=TEMP_PREFIX, dir=base))
            ending.callback(shutil.rmtree, temp, ignore_errors=True)
            ending.enter_context(owned(temp))
            (temp / INSIDE).mkdir()
        except OSError as error:
            raise out_of_room(error, base, hint=_ELSEWHERE) or ClusterError(
                f"Ray does not start: {error.strerror or error}",
                where=str(base),
                hint=_ELSEWHERE,
            ) from error
        yield temp


def _check_room(base: Path, nbytes: int) -> None:
    """Raise OutOfRoom where Ray's files do not fit: it waits, or dies, without a word on why."""
    short = no_room_in(base, nbytes, f"Ray's files in {base}", hint=_ELSEWHERE)
    if short is not None:
        raise short


def _end(temp: Path, losing: Losing) -> None:
    """End the Ray whose files are in `temp`, with all of its processes."""
    import ray

    with held_interrupts():
        started = _started_below(temp)
        try:
            if losing.error is not None:
                # What is left of it would wait for the rest.
                end_all(started, 0.0)
            with ending_waits():
                ray.shutdown()
        finally:
            end_all(started, _EXIT_GRACE_S)
            # A raylet may have been starting a worker when it ended, which is no one's child now.
            end_all(naming(temp), _EXIT_GRACE_S)


def plasma_directory(store_bytes: int, free_bytes: int | None, temp_dir: Path) -> Path:
    """Return where an object store of `store_bytes` goes.

    Parameters
    ----------
    store_bytes : int
    free_bytes : int or None
        Free in shared memory; None where the system has none.
    temp_dir : Path
        Where it goes if it does not fit.
    """
    fits = free_bytes is not None and free_bytes >= store_bytes
    return _SHARED_MEMORY if fits else temp_dir


def temp_base(candidates: Sequence[str]) -> str:
    """Return the first folder that is writable, and short enough for the sockets below it.

    Raises ClusterError where none is: the path of a socket has at most 107 bytes.
    """
    below = len(f"/{TEMP_PREFIX}12345678/{INSIDE}") + _SOCKET_BELOW_TEMP
    for base in candidates:
        if len(os.fsencode(base)) + below <= _SOCKET_PATH_LIMIT and os.access(base, os.W_OK):
            return base
    raise ClusterError(
        "no folder for Ray's sockets that is writable and has a short path",
        where=", ".join(dict.fromkeys(candidates)),
        hint=f"set TMPDIR to one of at most {_SOCKET_PATH_LIMIT - below} characters",
    )


def _on_a_lasting_thread(work: Callable[[], None], over: threading.Event) -> None:
    """Do `work` on a thread that is there until `over`.

    The system ends the processes of a Ray with the thread that started them.
    """
    if threading.current_thread() is threading.main_thread():
        work()
        return
    done: Future[None] = Future()

    def last() -> None:
        try:
            work()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)
            over.wait()

    begun(threading.Thread(target=last, name="hetsim ray", daemon=True))
    done.result()


def _started_below(temp: Path) -> tuple[Process, ...]:
    """The processes of the Ray whose files are in `temp`: its own, and those that they started."""
    found: dict[int, Process] = {}
    for process in descendants(os.getpid()):
        if process.parent in found or str(temp) in command_line(process):
            found[process.pid] = process
    return tuple(found.values())


def _free_bytes(folder: Path) -> int | None:
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
