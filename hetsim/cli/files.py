"""Files that verbs write: --trace, --out, --report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetsim.cli.invocation import current
from hetsim.core.text import to_compact_json
from hetsim.reporting.output import Text, check_file, check_folder, write_file, write_folder

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hetsim.problem.plan import Plan
    from hetsim.problem.timeline import Event, Timeline
    from hetsim.simulation.service.service import Service


def check_targets(out: Path | None = None) -> None:
    """Refuse, before any work is done, what could not be written after it.

    `out` is the folder of a verb that writes files of its own there.
    """
    invocation = current()
    force, folder = invocation.force, out or invocation.out
    if invocation.trace is not None:
        check_file(invocation.trace, force=force)
    if folder is not None:
        check_folder(folder, force=force)
    if invocation.report is not None:
        check_file(invocation.report, force=force, option="--report")


def leave(
    plan: Plan,
    timeline: Timeline,
    record: Mapping[str, Any],
    *,
    seed: int = 0,
    measured: Mapping[str, float] | None = None,
    real: Sequence[Event] = (),
    arrivals_s: Sequence[float] | None = None,
) -> None:
    """Write the trace, with what a real run did, and the folder with plan, result and manifest."""
    invocation = current()
    trace, out, force = invocation.trace, invocation.out, invocation.force
    if trace is None and out is None:
        return
    from hetsim.reporting.trace import trace_pieces

    drawn = trace_pieces(plan, timeline, real, arrivals_s)
    if out is not None:
        from hetsim.core.text import to_json
        from hetsim.reporting.output import manifest_json

        files: dict[str, Text] = {
            "plan.json": plan.to_json(),
            "result.json": to_json(record),
            "trace.json": drawn,
            "manifest.json": manifest_json(plan.problem, invocation.command, seed, measured),
        }
        write_folder(out, files, force=force)
        invocation.note(f"wrote {', '.join(files)} to {out}")
    if trace is not None:
        if out is None:
            write_file(trace, drawn, force=force)
        else:
            with (out / "trace.json").open(encoding="utf-8") as written:
                write_file(trace, iter(lambda: written.read(2**20), ""), force=force)
        invocation.note(
            f"wrote the trace of {plan.strategy} to {trace}; open it in ui.perfetto.dev"
        )


def leave_report(
    record: Mapping[str, Any],
    pictures: Callable[[], Mapping[str, Any]],
    printed: Callable[[], RenderableType],
) -> None:
    """Write the page of a record with pictures and what a terminal prints, where it is asked for.

    `record` goes into the page as JSON has it.
    """
    invocation = current()
    report = invocation.report
    if report is None:
        return
    from hetsim.reporting.pages.answers import answer_island
    from hetsim.reporting.pages.page import write_page

    drawn = pictures()
    with invocation.progress(f"writing {report}"):
        read = json.loads(to_compact_json(record))
        island = answer_island(read, invocation.command, drawn, printed())
        write_page(island, report, force=invocation.force)
    invocation.note(f"wrote the report to {report}; open it in a browser")


def leave_service(
    service: Service,
    record: Mapping[str, Any],
    *,
    files: Mapping[str, str],
    simulated: Service | None = None,
) -> None:
    """Write the folder with the result, trace and manifest of a workload that was played.

    `files` are what was read for it, by what they are; of a run for real `simulated` is what was
    simulated of it, and is in its trace, too.
    """
    invocation = current()
    trace, out, force = invocation.trace, invocation.out, invocation.force
    drawn_text = None
    if service.kept is not None and (trace is not None or out is not None):
        from hetsim.reporting.service_trace import service_trace_json

        drawn_text = service_trace_json(service, simulated)
    if trace is not None and drawn_text is not None:
        assert service.kept is not None
        write_file(trace, drawn_text, force=force)
        drawn = service.kept.outcomes.requests
        of = "" if drawn == service.requests else f"the first {drawn} of "
        told = f"wrote the trace of {of}{service.requests} requests to {trace}"
        invocation.note(f"{told}; open it in ui.perfetto.dev")
    if out is None:
        return
    from hetsim.core.text import to_json
    from hetsim.reporting.output import manifest_json

    first, *others = (one.problem for one in service.resolved)
    made = {
        "result.json": to_json(record),
        "manifest.json": manifest_json(
            first, invocation.command, service.workload.seed, others=others, files=files
        ),
    }
    if drawn_text is not None:
        made["trace.json"] = drawn_text
    write_folder(out, made, force=force)
    invocation.note(f"wrote {', '.join(made)} to {out}")
