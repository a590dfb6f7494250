"""``hetsim run`` where requests come at a rate: a workload for real, beside what is simulated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hetsim.cli.invocation import current
from hetsim.cli.load import Load, deployment_of, refuse, workload_of
from hetsim.cli.told_where import told_where
from hetsim.cli.under_load import asked_of, kept, with_options
from hetsim.errors import UsageError

if TYPE_CHECKING:
    from hetsim.cli.execute import Executor

OF_RUN = {
    "draws": "leave it out",
    "failures": "leave it out, or let devices fail in a run of one plan, without a rate",
    "precision": "leave it out, or run one plan so, without a rate",
    "plain": "leave it out, or compare a run of one plan, without a rate",
}
"""Options that are of one request, and what to do."""


def serve(load: Load, how: Executor, *, emulate: bool, time_scale: float | None) -> None:
    """Serve a workload for real; print what became of it, and leave it as asked."""
    from hetsim.cli.execute import require_equal
    from hetsim.cli.reports import report_of_load_test
    from hetsim.cli.trace_and_out import check_targets, leave_service
    from hetsim.execution.compiled.manifest import is_compiled
    from hetsim.execution.serving.serve import load_test
    from hetsim.reporting.tables.load_test import load_test_record, load_test_report

    invocation = current()
    refuse(OF_RUN, "is not taken where a workload is served for real")
    check_targets()
    if load.source is not None and is_compiled(Path(load.source)):
        raise UsageError(
            "a compiled plan is not served",
            where=load.source,
            hint="give the model, or the plan.json, in place of the folder",
        )
    if load.workload is None and load.requests is None and load.duration_s is None:
        raise UsageError(
            "nothing says when the run ends", hint="give --requests, or --duration in seconds"
        )
    load, hardware, asked = asked_of(load)
    workload = workload_of(load)
    deployment = deployment_of(load, workload)
    asked = with_options(asked, (deployment,))
    what = "emulating" if emulate else "serving"
    with (
        invocation.progress(f"{what} what comes on {how.executor}"),
        told_where(workload, load.workload, deployment, load.deployment),
    ):
        found = load_test(
            deployment,
            workload,
            hardware,
            asked=asked,
            emulate=emulate,
            inputs=invocation.inputs,
            executor=how.executor,
            address=how.address,
            time_scale=time_scale,
            timeout_s=how.timeout_s,
            seed=workload.seed,
            keep=kept(),
        )
    record = load_test_record(found)
    leave_service(found.measured, record, files=load.files, simulated=found.simulated)
    report_of_load_test(found, record)
    invocation.answer(lambda: record, lambda: load_test_report(found))
    if found.outputs is not None:
        require_equal(found.outputs.mismatches, "the run")
