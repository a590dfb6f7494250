"""Commands that are told to end: they clear away what they started, as after Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from hetsim.core.signals import ENDING


class Ended(BaseException):
    """A signal ended this process.

    Attributes
    ----------
    number : int
        Which.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP, the terminal closed, end what runs within by ``Ended``.

    Once: what comes while things are cleared away is passed over. Where somebody handles them, or
    ignores them as ``nohup`` has it, they stay so. Outside the main thread this does nothing.
    """
    found = []
    if threading.current_thread() is threading.main_thread():
        found = [number for number in ENDING if signal.getsignal(number) == signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> None:
        for each in found:
            signal.signal(each, signal.SIG_IGN)
        raise Ended(number)

    for number in found:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in found:
            signal.signal(number, signal.SIG_DFL)
