"""Files that verbs write: --trace, --out, --report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetsim.cli.invocation import current
from hetsim.core.text import Record, to_compact_json, to_json
from hetsim.reporting.output import (
    OWN_FILES,
    Text,
    check_file,
    check_folder,
    manifest_json,
    write_file,
    write_folder,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hetsim.problem.plan import Plan
    from hetsim.problem.timeline import Event, Timeline
    from hetsim.simulation.service.service import Service


def check_targets(out: Path | None = None) -> None:
    """Raise UsageError, before any work is done, for targets that could not be written after it.

    `out` is the folder of a verb that writes its own files there.
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
    out = invocation.out
    if invocation.trace is None and out is None:
        return
    from hetsim.reporting.trace import trace_pieces

    files: dict[str, Text] = {}
    if out is not None:
        files = {
            "plan.json": plan.to_json(),
            "result.json": to_json(record),
            "manifest.json": manifest_json(plan.problem, invocation.command, seed, measured),
        }
    _write(files, trace_pieces(plan, timeline, real, arrivals_s), f"the trace of {plan.strategy}")


def _write(files: dict[str, Text], drawn: Text | None, told: str) -> None:
    """Write files and a trace to the folder of --out, and the trace to the file of --trace."""
    invocation = current()
    trace, out, force = invocation.trace, invocation.out, invocation.force
    if out is not None:
        if drawn is not None:
            files = {**files, "trace.json": drawn}
        named = {name: files[name] for name in OWN_FILES if name in files}
        write_folder(out, named, force=force)
        invocation.note(f"wrote {', '.join(named)} to {out}")
    if trace is not None and drawn is not None:
        if out is None:
            write_file(trace, drawn, force=force)
        else:
            with (out / "trace.json").open(encoding="utf-8") as written:
                write_file(trace, iter(lambda: written.read(2**20), ""), force=force)
        invocation.note(f"wrote {told} to {trace}; open it in ui.perfetto.dev")


def pictures_of(found: object) -> Record:
    """Return the data for the pictures of a result's page that its record lacks."""
    from hetsim.reporting.results import pictures

    return pictures(found)


def leave_report(
    record: Mapping[str, Any],
    pictures: Callable[[], Mapping[str, Any]],
    printed: Callable[[], RenderableType],
) -> None:
    """Write the page of a record with pictures and the terminal output, if it is requested.

    The page has `record` in its JSON form.
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
    """Write the folder with the result, trace and manifest of a simulated or real workload.

    `files` are the files that were read for it, by kind; for a real run `simulated` is its
    simulation, which the trace has, too.
    """
    invocation = current()
    if invocation.trace is None and invocation.out is None:
        return
    from hetsim.reporting.service_trace import service_trace_json

    files_of: dict[str, Text] = {}
    if invocation.out is not None:
        first, *others = (one.problem for one in service.resolved)
        command, seed = invocation.command, service.workload.seed
        about = manifest_json(first, command, seed, others=others, files=files)
        files_of = {"result.json": to_json(record), "manifest.json": about}
    if service.kept is None:
        _write(files_of, None, "")
        return
    kept = service.kept.outcomes.requests
    of = "" if kept == service.requests else f"the first {kept} of "
    told = f"the trace of {of}{service.requests} requests"
    _write(files_of, service_trace_json(service, simulated), told)
