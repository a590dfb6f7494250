"""Forked children: what their parent opened is neither used nor ended by them."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack

from hetsim.errors import UsageError

_stacks: weakref.WeakSet[ExitStack] = weakref.WeakSet()


def ended_by_this_process(stack: ExitStack) -> ExitStack:
    """Return `stack`, which in a forked child has nothing to close."""
    _stacks.add(stack)
    return stack


def refuse_child(owner: int, what: str) -> None:
    """Raise UsageError in a process other than `owner`, in which `what` was opened."""
    if os.getpid() != owner:
        raise UsageError(
            f"{what} was opened in process {owner}, from which this one was forked",
            hint="open one here, or start this process by multiprocessing's 'spawn'",
        )


def after_fork(forget: Callable[[], None]) -> None:
    """Have `forget` called in every forked child, where the system forks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)


def keep(thing: object) -> None:
    """Keep an object until the process has ended: at its end Python would close generators."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _forget() -> None:
    for stack in tuple(_stacks):
        keep(stack.pop_all())


after_fork(_forget)
