"""Results as plain records, and those as JSON: the same bytes for the same question.

Seconds, bytes, joules; shares in [0, 1]. A figure that does not exist, or is infinite, is null.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hetsim.analysis.comparison import Comparison, Row
from hetsim.analysis.sureness import Spread
from hetsim.core.text import Record, fields
from hetsim.device.kernels.onnx_runtime import SESSION_OPTIONS
from hetsim.problem.parts import Slower
from hetsim.problem.plan import Plan
from hetsim.problem.problem import Problem
from hetsim.problem.record import problem_record
from hetsim.problem.timeline import Timeline
from hetsim.reporting.tables.comparison import sureness_text, verdict
from hetsim.reporting.tables.plan import critical_path, latency_spread

if TYPE_CHECKING:
    from hetsim.execution.run import Run


INTERVAL = "(p10=low p90=high)"
"""Fields of an 80 % interval."""

_DEVIATIONS = "deviations(output max_abs max_rel lost)"


def _spread_record(spread: Spread | None) -> Record | None:
    if spread is None:
        return None
    interval = f"latency_mean_s=latency_s{INTERVAL} makespan_s{INTERVAL}"
    return {**fields(spread, interval), **fields(spread, "draws draw_seed")}


def timeline_record(timeline: Timeline) -> Record:
    """Return a timeline's figures; its events belong in a trace.

    ``critical_path`` is null where there are several requests or no trace: the figures
    must not depend on whether a trace was asked for.
    """
    single = len(timeline.latencies_s) == 1
    path = critical_path(timeline) if single else None
    spread = latency_spread(timeline)
    makespan_s = timeline.makespan_s
    return {
        "requests": len(timeline.latencies_s),
        "latency_s": timeline.latency_s,
        **{f"latency_{name}": value for name, value in fields(spread).items()},
        "makespan_s": makespan_s,
        "requests_per_s": len(timeline.latencies_s) / makespan_s if makespan_s > 0 else None,
        **fields(timeline, "transfers transferred_bytes transfer_s"),
        "critical_path": None
        if path is None
        else fields(path, "compute_s transfer_s transfer_share shares_s"),
        "energy_j": timeline.energy_j,
        "devices": {
            device: {
                "busy_s": busy_s,
                "busy_share": timeline.device_busy_share.get(device),
                "utilization": timeline.device_utilization.get(device),
                "peak_memory_bytes": timeline.peak_memory_bytes.get(device),
                "weight_bytes": timeline.weight_bytes.get(device),
            }
            for device, busy_s in timeline.device_busy_s.items()
        },
        "links": {
            link: {"busy_s": busy_s, "utilization": timeline.link_utilization.get(link)}
            for link, busy_s in timeline.link_busy_s.items()
        },
    }


def plan_record(plan: Plan) -> Record:
    """Return a plan in short; ``Plan.to_json`` has every node."""
    return {
        "strategy": plan.strategy,
        "options": dict(sorted(plan.options.items())),
        "reason": plan.reason,
        "subgraphs": len(plan.groups),
        "devices_used": list(plan.devices_used),
        **({"replicas": len(plan.sizes), "deal": list(plan.deal)} if plan.sizes else {}),
    }


def row_record(row: Row, busy: Mapping[str, float]) -> Record:
    """Return one strategy of a comparison; `busy` is as ``Comparison.busy`` gives it."""
    return {
        **fields(
            row,
            "strategy feasible reason latency_s speedup_over_best_single speedup_over gap cost_s "
            f"bottleneck_s sure(cost_s{INTERVAL} speedup_over_best_single=speedup{INTERVAL} best "
            "regret_mean_s regret_p90_s regret_mean regret_p90 pays loss_mean loss_p90)",
        ),
        "slower": None if row.plan is None else slower_record(row.plan.problem, row.slower),
        "busy": dict(busy),
        "subgraphs": row.groups,
        "plan": None if row.plan is None else plan_record(row.plan),
        "timeline": None if row.timeline is None else timeline_record(row.timeline),
    }


def comparison_record(comparison: Comparison) -> Record:
    """Return a comparison: the bound, the ceiling on any speed-up, and the rows, best first."""
    return {
        "schema": "hetsim-comparison/1",
        "problem": problem_record(comparison.problem),
        **fields(
            comparison,
            "objective draws draw_seed sustained lower_bound_s=bound_s best_single single_s "
            "speedup_ceiling=ceiling",
        ),
        "copies": None
        if comparison.copies is None
        else {"cost_s": comparison.copies.cost_s, **plan_record(comparison.copies.plan)},
        "verdict": _verdict_record(comparison),
        "rows": [row_record(row, comparison.busy(row)) for row in comparison.rows],
    }


def _verdict_record(comparison: Comparison) -> Record:
    found = comparison.verdict
    choice = "(strategy cost_s devices)"
    return {
        "say": verdict(comparison),
        "sure": None if found.sure is None else sureness_text(comparison),
        **fields(found, f"answer take{choice} tried{choice} over{choice} gain chance"),
    }


def slower_record(problem: Problem, slower: Slower | None) -> Record | None:
    """Return the slowdown factors of devices; None where there is no slowdown."""
    if slower is None:
        return None
    return {
        "power": slower.power,
        "memory": dict(zip(problem.devices, slower.memory, strict=True)),
    }


def simulation_record(plan: Plan, timeline: Timeline, spread: Spread | None = None) -> Record:
    """Return one plan on the virtual clock, and what its times may be between."""
    return {
        "schema": "hetsim-simulation/1",
        "problem": problem_record(plan.problem),
        "plan": plan_record(plan),
        "timeline": timeline_record(timeline),
        "sure": _spread_record(spread),
    }


def checked_record(plan: Plan, run: Run) -> Record:
    """Return the comparison of a run's outputs."""
    return {
        "strategy": plan.strategy,
        **fields(run, f"executor bitwise_equal tolerance mismatches precision {_DEVIATIONS}"),
        "session_options": dict(SESSION_OPTIONS),
        **fields(run, f"default_session_options=plain(bitwise_equal {_DEVIATIONS} mismatches)"),
        "outputs": {name: array_record(array) for name, array in run.outputs.items()},
    }


def run_record(plan: Plan, run: Run, spread: Spread | None = None) -> Record:
    """Return one run but for its wall clock, which is another in every process."""
    return {
        "schema": "hetsim-run/1",
        "problem": problem_record(plan.problem),
        "plan": plan_record(plan),
        **checked_record(plan, run),
        "timeline": timeline_record(run.timeline),
        "sure": _spread_record(spread),
    }


def array_record(value: Any) -> Record | list[Any] | None:
    """Return an output's dtype, shape, and SHA-256 of its bytes in C order.

    Strings are digested as JSON, and so is a map; a sequence gives a list of records, an absent
    optional None.
    """
    if value is None:
        return None
    if isinstance(value, dict):
        content = json.dumps(list(value.items()), default=repr).encode()
        return {"keys": len(value), "sha256": hashlib.sha256(content).hexdigest()}
    if not hasattr(value, "dtype") and not isinstance(value, (list, tuple)):
        return {"value": value if isinstance(value, (int, float, str)) else repr(value)}
    if isinstance(value, (list, tuple)):
        return [array_record(item) for item in value]
    text = value.dtype.kind in "OUST"
    content = json.dumps(value.tolist(), default=repr).encode() if text else value.tobytes()
    return {
        "dtype": "string" if text else str(value.dtype),
        "shape": list(value.shape),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
