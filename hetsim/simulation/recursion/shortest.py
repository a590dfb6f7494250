"""Where fewest requests are, of replicas that share nothing, each of tasks that share nothing.

As ``kernel.serve`` does it for replicas of any kind. In the subset of Python that numba compiles.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from hetsim.base.machine_code import machine_code
from hetsim.simulation.recursion.kernel import Floats, Ints, Queues, enter, release
from hetsim.simulation.recursion.least import Replicas, run


def serve_shortest(
    replicas: Replicas,
    queues: Queues,
    arrival: Sequence[float],
    template: Ints,
    begun: Floats,
    finish: Floats,
) -> None:
    """Play a block of requests, each where fewest are; of equals the lowest template.

    Parameters
    ----------
    replicas
    queues
        With room for a block.
    arrival : [requests]
    template, begun, finish : [requests]
        Out, as ``kernel.serve`` has them.

    Complexity: O(templates + tasks, what they wait for) a request.
    """
    templates = len(replicas.first) - 1
    for r in range(len(arrival)):
        came = arrival[r]
        chosen = 0
        fewest = len(arrival) + queues.room
        for t in range(templates):
            while queues.next_end[t] <= came:
                release(queues, t)
            size = queues.size[t]
            chosen = t if size < fewest else chosen
            fewest = min(size, fewest)
        opened, last = run(replicas, chosen, came)
        template[r] = chosen
        begun[r] = came if opened == math.inf else opened
        finish[r] = last
        enter(queues, chosen, last)


PARTS = (release, enter, run)
"""What it calls."""


@functools.cache
def compiled() -> Callable[..., None]:
    """Return `serve_shortest` as machine code for int64 and float64 arrays."""
    return machine_code(serve_shortest, *PARTS, inline=True)
