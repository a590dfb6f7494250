"""What a workload for real says."""

from __future__ import annotations

from dataclasses import dataclass, field

from hetsim.execution.serving.host import Host
from hetsim.execution.serving.outputs import Outputs
from hetsim.service.service import Service

LATE_SHARE = 0.05
"""Of latencies, and of devices' time: what of it may be this machine's own lateness."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadTest:
    """What became of a workload for real, beside what was simulated of the same arrivals.

    Attributes
    ----------
    measured, simulated : Service
        In seconds of the workload. A measured latency is from when a request was due until its
        outputs were here; of what is not emulated, service is what a batch took alone before the
        run, and links took no time of their own.
    emulated : bool
        Whether devices and links took their modelled time; else devices took what this
        machine's kernels take.
    time_scale : float
        Real seconds that a second of the workload lasted.
    host : Host
        How this machine kept up.
    outputs : Outputs or None
        Whether answers are right; None where not asked for.
    executor : str
        ``ray`` or ``threads``.
    start_s : float
        Real seconds until every device was ready.
    """

    measured: Service = field(repr=False)
    simulated: Service = field(repr=False)
    emulated: bool
    time_scale: float
    host: Host
    outputs: Outputs | None
    executor: str
    start_s: float
