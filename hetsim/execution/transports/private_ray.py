"""Private Ray: settings, start apart from the driver's folders, end without leftovers."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hetsim.core.files import scratch_folder
from hetsim.core.process import begun, own_environment
from hetsim.core.room import no_room_in, out_of_room
from hetsim.errors import ClusterError
from hetsim.execution.transports.processes import (
    INSIDE,
    TEMP_PREFIX,
    Process,
    command_line,
    descendants,
    end_abandoned,
    end_all,
    ending_waits,
    hangup_ends,
    held_interrupts,
    naming,
    owned,
)
from hetsim.execution.transports.ray_health import RayLoss, vital_processes_watched
from hetsim.hardware.files.catalog_files import catalog_folder
from hetsim.version import package_folder

START_S = 180
"""Maximum seconds for Ray to start; its own limit, 30 s, is too short on a busy machine."""

# After a device failure, every value of its call is an unhandled error.
QUIET = {"RAY_IGNORE_UNHANDLED_ERRORS": "1"}
"""Settings for every Ray that is joined or started."""

ENVIRONMENT = {
    **QUIET,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Otherwise its workers have a nice value of 15: beside other jobs a device would stand still
    # most of the time.
    "RAY_worker_niceness": "0",
    # Anyone who joins may run any code, as this user.
    "RAY_AUTH_MODE": "token",
    # Its processes wait for each other as long as this one waits for them.
    "RAY_gcs_server_port_wait_time_s": str(START_S),
    "RAY_gcs_rpc_server_connect_timeout_s": str(START_S),
    "RAY_raylet_start_wait_time_s": str(START_S),
    "RAY_agent_register_timeout_ms": str(START_S * 1000),
}
"""Settings for a Ray that is started here."""


def private_environment() -> dict[str, str]:
    """Return variables for a Ray of this process only, with a new token, stored in no file."""
    return {**ENVIRONMENT, "RAY_AUTH_TOKEN": secrets.token_hex(32)}


@contextlib.contextmanager
def restored(settings: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for Ray, and undo its changes to this process at the end."""
    environment = dict(os.environ)
    excepthook = sys.excepthook
    os.environ.update(settings)
    # Some are read, and the log level is set, at the first import.
    importlib.import_module("ray")
    logger = logging.getLogger("ray")
    level = logger.level
    logger.setLevel(logging.ERROR)
    in_main = threading.current_thread() is threading.main_thread()
    on_terminate = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        # The last user may be on another thread, which cannot set signal handlers.
        in_main = in_main and threading.current_thread() is threading.main_thread()
        if in_main and on_terminate is not None:
            signal.signal(signal.SIGTERM, on_terminate)
        logger.setLevel(level)
        sys.excepthook = excepthook
        for name in {*os.environ, *environment}:
            if name.startswith("RAY_") or name in {*settings, "PYTHONBREAKPOINT"}:
                if name in environment:
                    os.environ[name] = environment[name]
                else:
                    os.environ.pop(name, None)
        if "RAY_AUTH_MODE" in settings:
            _read_login()


@contextlib.contextmanager
def _protected() -> Iterator[None]:
    """Make a Ray started within the context listen on loopback only, and require a token.

    Raises ClusterError if the installed Ray does not.
    """
    _read_login()
    raylet: Any = importlib.import_module("ray._raylet")
    mode = getattr(raylet, "get_authentication_mode", None)
    if mode is None or mode() != raylet.AuthenticationMode.TOKEN:
        raise ClusterError(
            "cannot start a private Ray: the installed version does not support tokens",
            hint="install ray 2.52 or newer, or use --executor threads",
        )
    # Ray's switch for loopback on a Mac; its processes read the variable, and this one has read it
    # already.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    with _replaced("ray._private.ray_constants", ENABLE_RAY_CLUSTER=False):
        yield


@contextlib.contextmanager
def _replaced(module: str, **others: Any) -> Iterator[None]:
    """Replace values in a module of Ray's until the context ends."""
    found = importlib.import_module(module)
    before = {name: getattr(found, name, None) for name in others}
    for name, value in others.items():
        setattr(found, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(found, name, value)


def _read_login() -> None:
    """Make Ray read again whether a token is required, and its value."""
    raylet: Any = importlib.import_module("ray._raylet")
    if hasattr(raylet, "AuthenticationTokenLoader"):
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()


_LOOK_S = 0.1
_OF_AGENTS = ("--dashboard_agent_command=", "--runtime_env_agent_command=")


@contextlib.contextmanager
def _started_apart(folder: Path) -> Iterator[None]:
    """Start Ray's processes in `folder`, without the driver's paths, with a longer timeout.

    They get SIGTERM, as a Ray whose control plane ends during the start takes a minute to report
    it, and end with their parent. Ray's API server is omitted: it contacts the metadata address of
    three clouds to identify its own.
    """
    services: Any = importlib.import_module("ray._private.services")
    start, find = services.start_ray_process, services.get_node
    running: list[Any] = []

    def started(command: Sequence[str], *words: Any, **options: Any) -> Any:
        environment = {**own_environment(), **(options.pop("env_updates", None) or {})}
        options |= {"env_updates": environment, "cwd": str(folder)}
        if shutil.which("setpriv"):
            # The system ends processes started by this one, but not those started by a raylet.
            command = [
                word.replace("=", "=setpriv --pdeathsig KILL -- ", 1)
                if word.startswith(_OF_AGENTS)
                else word
                for word in command
            ]
        masked = signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
        try:
            process = start(command, *words, **options)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        running.append(process.process)
        return process

    def found(*of: Any) -> Any:
        deadline = time.monotonic() + START_S
        while True:
            try:
                return find(*of)
            except RuntimeError:
                ended = any(one.poll() is not None for one in running)
                if ended or time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_S)

    with _replaced(
        "ray._private.services",
        start_ray_process=started,
        start_api_server=lambda *given, **options: ("", None),
        get_node=found,
    ):
        yield


_SUBMITTED = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Variable set if this process is a job submitted to a cluster, which has its own folder."""


@contextlib.contextmanager
def code_environment() -> Iterator[dict[str, Any]]:
    """Yield the ``runtime_env`` for ``ray.init`` that ships this hetsim to every node.

    Workers run in an empty folder: if ``PYTHONPATH`` is set but empty on a node, Ray appends an
    empty entry, which means the working directory.
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
    """Return the package with its catalog, as in a wheel; for a checkout, built in `folder`."""
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
    """Yield the ``job_config`` that keeps the driver's folders off workers' search paths.

    Raises ClusterError if the installed Ray still adds one of them.
    """
    from ray.job_config import JobConfig

    class JobApart(JobConfig):
        def _serialize(self) -> Any:
            self._py_driver_sys_path: list[str] = []
            return super()._serialize()

    with _replaced("ray._private.ray_constants", RAY_ENABLE_UV_RUN_RUNTIME_ENV=False):
        yield JobApart()
    worker: Any = importlib.import_module("ray._private.worker")
    path = worker.global_worker.core_worker.get_job_config().py_driver_sys_path
    if path:
        raise ClusterError(
            f"workers of the installed Ray import from {', '.join(path)}",
            hint="use --executor threads",
        )


_SMALLEST_STORE_BYTES = 128 * 2**20
_SHARED_MEMORY = Path("/dev/shm")
_SOCKET_PATH_LIMIT = 107
_SOCKET_BELOW_TEMP = len("/session_2000-01-01_00-00-00_000000_4194304/sockets/plasma_store")
_EXIT_GRACE_S = 5.0
_FILES_BYTES = 2**22
"""Bytes of logs and sockets of a Ray that runs for a while."""
_ELSEWHERE = "free space there, or use --executor threads"


@contextlib.contextmanager
def private_ray(store_bytes: int, cpus: int, namespace: str) -> Iterator[tuple[Path, RayLoss]]:
    """Yield the folder of all files of a new Ray, and the record of its loss.

    Its object store has at least Ray's minimum. Raises ClusterError if Ray does not start.
    """
    base = Path(temp_base((tempfile.gettempdir(), "/tmp", "/var/tmp")))
    with restored(private_environment()), _protected(), ExitStack() as ending:
        end_abandoned(base)
        with held_interrupts():
            started = _started(base, max(store_bytes, _SMALLEST_STORE_BYTES), cpus, namespace)
            temp, loss = ending.enter_context(started)
        with hangup_ends():
            yield temp, loss


@contextlib.contextmanager
def _started(
    base: Path, store_bytes: int, cpus: int, namespace: str
) -> Iterator[tuple[Path, RayLoss]]:
    import ray

    loss = RayLoss()
    with _owned_folder(base) as temp, ExitStack() as ending:
        files = temp / INSIDE
        store = plasma_directory(store_bytes, files)
        nbytes = _FILES_BYTES + (store_bytes if store == files else 0)
        # Without room Ray waits, or dies, without an explanation.
        short = no_room_in(base, nbytes, f"Ray's files in {base}", hint=_ELSEWHERE)
        if short is not None:
            raise short
        over = threading.Event()
        ending.callback(over.set)

        def start() -> None:
            with ending_waits(), _started_apart(files), job_apart() as job:
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
                said = str(error).strip().partition("\n")[0] or type(error).__name__
                raise ClusterError(
                    f"Ray does not start: {said}", hint="use --executor threads"
                ) from error
            with vital_processes_watched(_started_below(temp), loss):
                yield temp, loss
        finally:
            _end(temp, loss)


@contextlib.contextmanager
def _owned_folder(base: Path) -> Iterator[Path]:
    """Yield a new folder in `base` with room for Ray's files, removed at the end."""
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


def _end(temp: Path, loss: RayLoss) -> None:
    """End the Ray whose files are in `temp`, with all of its processes."""
    import ray

    with held_interrupts():
        started = _started_below(temp)
        try:
            if loss.error is not None:
                # Its remaining processes would wait for the others.
                end_all(started, 0.0)
            with ending_waits():
                ray.shutdown()
        finally:
            end_all(started, _EXIT_GRACE_S)
            # A raylet may have been starting a worker when it ended, which now is an orphan.
            end_all(naming(temp), _EXIT_GRACE_S)


def plasma_directory(store_bytes: int, temp_dir: Path) -> Path:
    """Return the location of an object store: shared memory, or `temp_dir` if it does not fit."""
    try:
        status = os.statvfs(_SHARED_MEMORY)
    except OSError:
        return temp_dir
    return _SHARED_MEMORY if status.f_bavail * status.f_frsize >= store_bytes else temp_dir


def temp_base(candidates: Sequence[str]) -> str:
    """Return the first folder that is writable, and short enough for the sockets below it.

    Raises ClusterError if there is none: the path of a socket has at most 107 bytes.
    """
    below = len(f"/{TEMP_PREFIX}12345678/{INSIDE}") + _SOCKET_BELOW_TEMP
    for base in candidates:
        if len(os.fsencode(base)) + below <= _SOCKET_PATH_LIMIT and os.access(base, os.W_OK):
            return base
    raise ClusterError(
        "no writable folder with a short path for Ray's sockets",
        where=", ".join(dict.fromkeys(candidates)),
        hint=f"set TMPDIR to a path of at most {_SOCKET_PATH_LIMIT - below} characters",
    )


def _on_a_lasting_thread(work: Callable[[], None], over: threading.Event) -> None:
    """Do `work` on a thread that lives until `over`: Ray's processes end with the thread."""
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
    """Return the processes of the Ray with files in `temp`, and their children."""
    found: dict[int, Process] = {}
    for process in descendants(os.getpid()):
        if process.parent in found or str(temp) in command_line(process):
            found[process.pid] = process
    return tuple(found.values())
