"""State of the process that hetsim runs in: threads, signals, children, garbage collection."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from hetsim.core.room import out_of_room
from hetsim.errors import UsageError
from hetsim.version import package_folder

_stacks: weakref.WeakSet[ExitStack] = weakref.WeakSet()


def ended_by_this_process(stack: ExitStack) -> ExitStack:
    """Return `stack`, made empty in a forked child, where it must close nothing."""
    _stacks.add(stack)
    return stack


def refuse_child(owner: int, what: str) -> None:
    """Raise UsageError if this process is not `owner`, in which `what` was opened."""
    if os.getpid() != owner:
        raise UsageError(
            f"{what} was opened in process {owner}, from which this one was forked",
            hint="open one here, or start this process with multiprocessing's 'spawn' method",
        )


def after_fork(forget: Callable[[], None]) -> None:
    """Register `forget` to run in every forked child, if the system forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)


def keep(thing: object) -> None:
    """Keep an object alive until the process ends, so that Python does not close its generators."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _forget() -> None:
    for stack in tuple(_stacks):
        keep(stack.pop_all())


after_fork(_forget)


def begun(thread: threading.Thread, where: str | None = None) -> threading.Thread:
    """Start a thread, and return it.

    Raises OutOfRoom, at `where`, if the system cannot start another.
    """
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        raise out_of_room(error, where) or error from error
    return thread


ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that the system has for a request to end and for the closing of the terminal."""


@contextlib.contextmanager
def ending_left_to_others() -> Iterator[None]:
    """Block these signals in threads that start within, so that others handle them.

    The system delivers a signal to any thread that does not block it: if all but the main one do,
    the main thread alone handles it. No effect if the system has no signal masks.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def own_environment() -> dict[str, str]:
    """Return the environment for a Python process that hetsim starts.

    Neither the working directory nor the folder of a script is on its path. An empty entry of
    ``PYTHONPATH``, as ``export PYTHONPATH=$PYTHONPATH:/opt/x`` may leave, is the working directory.
    """
    inherited = os.environ.get("PYTHONPATH", "")
    kept = () if sys.flags.ignore_environment else elsewhere(inherited.split(os.pathsep))
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(kept)}


def elsewhere(path: Iterable[str]) -> list[str]:
    """Return the entries of a search path that are not the working directory, as absolute paths."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:
        # It was removed: what is relative to it is nowhere.
        return [entry for entry in path if os.path.isabs(entry)]
    # Import hooks put words of their own on the path, which are no folders.
    absolute = [os.path.abspath(one) if os.path.exists(one or os.curdir) else one for one in path]
    return [entry for entry in absolute if os.path.realpath(entry) != here]


def started(module: str, function: str, *numbers: int, **how: Any) -> subprocess.Popen[Any]:
    """Start a process that calls a function of this package with `numbers`.

    It finds this package where this process did, and other modules where this process would, except
    in the working directory. `how` are arguments of ``Popen``.
    """
    start = (
        "import sys; sys.path.insert(0, sys.argv[1]); import hetsim; del sys.path[0]; "
        "sys.path += [entry for entry in sys.argv[2:] if entry not in sys.path]; "
        f"from {module} import {function}; {function}({', '.join(map(str, numbers))})"
    )
    command = [sys.executable, "-P", "-c", start, str(package_folder().parent)]
    return subprocess.Popen([*command, *elsewhere(sys.path)], env=own_environment(), **how)


_lock = threading.Lock()
_inside = [0]
_was_enabled = [False]


@contextmanager
def collecting_put_off() -> Iterator[None]:
    """Suspend garbage collection inside the block, in other threads as well.

    Each collection visits all objects, and so takes longer the more there are. Calls may overlap;
    after the last, the state is as before the first.
    """
    with _lock:
        if not _inside[0]:
            _was_enabled[0] = gc.isenabled()
            gc.disable()
        _inside[0] += 1
    try:
        yield
    finally:
        with _lock:
            _inside[0] -= 1
            if not _inside[0] and _was_enabled[0]:
                gc.enable()
