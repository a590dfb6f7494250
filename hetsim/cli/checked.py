"""What became of files that a verb checks: ``hetsim devices validate``, ``workload validate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetsim.cli.invocation import current
from hetsim.errors import HetsimError


def show_checked(
    record: Mapping[str, Any],
    checks: Sequence[tuple[str, Sequence[HetsimError], str]],
    fault: type[HetsimError],
) -> None:
    """Print of each file what is wrong with it, or what it describes; raise where any is wrong.

    `checks` are the files, their errors, and the lines of those that have none.
    """
    from hetsim.core.text import cut
    from hetsim.reporting.words.text import count

    invocation = current()
    if invocation.as_json:
        invocation.show_json(record)
    else:
        for _, errors, line in checks:
            for told in [cut(str(error)) for error in errors] or [line]:
                invocation.say(told)
    wrong = sum(bool(errors) for _, errors, _ in checks)
    if wrong:
        raise fault(f"{wrong} of {count(len(checks), 'file')} cannot be used")
