"""A small process beside a private Ray: says where one of Ray's own ends, and clears up after all.

Ray's code ends the process that it runs in, without a word, where its raylet is gone, and a process
that is killed clears nothing away. This one does, and says so. It is a program of its own, told
on its standard input, by line: ``folder PATH``, where the files of the Ray are; ``watch NAME PID``
of a process; ``enough``, where none is to be watched any more; ``done``, where its owner has
cleared away by itself. On its standard output it names what ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from pathlib import Path

from hetsim.base.signals import ENDING
from hetsim.execution.transports.ray_connection.abandoned import clear


def lost(name: str) -> str:
    """Return what to say of a Ray whose process `name` ended."""
    return f"the Ray of this run is lost: its process '{name}' ended"


def ended_with(name: str) -> str:
    """Return what to say where the owner of a Ray ended about when its process `name` did."""
    return f"this process ended with the Ray of its run, whose process '{name}' ended"


LOST_HINT = "see whether the machine has run out of memory, and run it again"


def main() -> None:
    """Watch until the owner is done, or gone."""
    for number in (signal.SIGINT, *ENDING):
        signal.signal(number, signal.SIG_IGN)
    # Where it was started is not to be kept from being removed.
    os.chdir("/")
    folder, gone = _watch(sys.stdin.fileno())
    if folder is None:
        return
    if gone is not None:
        with contextlib.suppress(OSError):
            print(f"error: {ended_with(gone)}; {LOST_HINT}", file=sys.stderr, flush=True)
    clear(folder)


def _watch(told: int) -> tuple[Path | None, str | None]:
    """Return the folder that nobody clears away, and what had ended before its owner."""
    poll = select.poll()
    poll.register(told, select.POLLIN | select.POLLHUP)
    names: dict[int, str] = {}
    folder: Path | None = None
    gone: str | None = None
    rest = b""
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        for ended in sorted(ready & names.keys()):
            poll.unregister(ended)
            os.close(ended)
            name = names.pop(ended)
            gone = gone or name
            # Its owner may be gone, too.
            with contextlib.suppress(OSError):
                print(name, flush=True)
        if told not in ready:
            continue
        read = os.read(told, 2**16)
        if not read:
            return folder, gone
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            what, _, more = os.fsdecode(line).partition(" ")
            if what == "done":
                return None, None
            if what == "enough":
                for descriptor in names:
                    poll.unregister(descriptor)
                    os.close(descriptor)
                names.clear()
            elif what == "watch":
                name, _, pid = more.rpartition(" ")
                with contextlib.suppress(OSError):
                    descriptor = os.pidfd_open(int(pid))
                    names[descriptor] = name
                    poll.register(descriptor, select.POLLIN)
            elif what == "folder":
                folder = Path(more)


if __name__ == "__main__":
    main()
