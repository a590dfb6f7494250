"""``hetsim partition``: the subgraphs that devices can take whole."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetsim.cli.options import (
    common_options,
    json_option,
    model_options,
    platform_option,
)
from hetsim.cli.session import current
from hetsim.errors import UsageError, nearest

if TYPE_CHECKING:
    from hetsim.cli.question import Canonical
    from hetsim.partitioning.sizes import SizeRules
    from hetsim.problem import Problem

ALL = "all"


@click.command()
@click.argument("model")
@platform_option
@click.option(
    "--method",
    default="compact",
    show_default=True,
    metavar="NAME",
    help="Merge method; `hetsim strategies` lists them; `all` compares them.",
)
@click.option(
    "--priority",
    metavar="DEVICE,...",
    help="A node goes to the first of these that supports it.  [default: all, the host last]",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Size rule: min_nodes, max_groups, max_nodes_per_group, fit_weights; repeatable.",
)
@click.option(
    "--explain",
    "pair",
    nargs=2,
    metavar="NODE NODE",
    help="Say why these two are in one group or in two, in place of the table.",
)
@click.option(
    "--dot", type=click.Path(path_type=Path), help="Write a picture for Graphviz to this file."
)
@click.option(
    "--mermaid", type=click.Path(path_type=Path), help="Write a Mermaid picture to this file."
)
@click.option(
    "--onnx",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write split.onnx, annotated.onnx and one model a group to this new folder.",
)
@click.option("--force", is_flag=True, help="Replace pictures that exist.")
@model_options
@json_option
@common_options
def partition(
    model: str,
    platform: str | None,
    method: str,
    priority: str | None,
    settings: tuple[str, ...],
    pair: tuple[str, str] | None,
    dot: Path | None,
    mermaid: Path | None,
    folder: Path | None,
    force: bool,
    dims: dict[str, int],
    shapes: dict[str, tuple[int, ...]],
    canonical: Canonical | None,
    as_json: bool,
) -> None:
    """Cut MODEL into groups of nodes that a device can run whole."""
    from hetsim.cli.question import read_problem
    from hetsim.partitioning.methods import methods
    from hetsim.partitioning.methods import partition as cut
    from hetsim.partitioning.views import explain, node_named
    from hetsim.reporting.output import check_file, write_file
    from hetsim.reporting.pictures import to_dot, to_mermaid
    from hetsim.reporting.plan_table import partition_report
    from hetsim.reporting.result import partition_record

    session = current()
    known = [info.name for info in methods()]
    if method not in (*known, ALL):
        raise UsageError(f"no merge method '{method}'", hint=nearest(method, (*known, ALL)))
    order = None if priority is None else [name.strip() for name in priority.split(",")]
    if order is not None and (not all(order) or len(set(order)) != len(order)):
        raise UsageError(
            f"'{priority}' is no list of different devices",
            where="--priority",
            hint="write e.g. --priority npu,gpu,cpu",
        )
    sizes = size_rules(settings)
    pictures = {"--dot": dot, "--mermaid": mermaid}
    for option, path in pictures.items():
        if path is not None:
            check_file(path, force=force, option=option)
    if folder is not None:
        from hetsim.partitioning.onnx_folder import check_folder, save_all

        check_folder(folder)
    if method == ALL and (pair or dot or mermaid or folder):
        raise UsageError("--explain, --dot, --mermaid and --onnx need one method", hint="name it")
    problem = read_problem(model, platform, dims, shapes, canonical)
    if method == ALL:
        _compare(problem, known, order, sizes, as_json=as_json)
        return
    with session.progress(f"partitioning with {method}"):
        made = cut(problem, method, priority=order, sizes=sizes)
    for option, path in pictures.items():
        if path is not None:
            draw = to_dot if option == "--dot" else to_mermaid
            write_file(path, draw(problem, made.groups), force=force, option=option)
            session.note(f"wrote {path}")
    if folder is not None:
        with session.progress(f"writing {folder}"):
            names = save_all(problem, made.groups, folder)
        session.note(f"wrote {len(names)} models to {folder}")
    if pair:
        u, v = (node_named(problem, name) for name in pair)
        why = explain(problem, made.groups, u, v)
        if as_json:
            session.show_json({"schema": "hetsim-explain/1", "nodes": list(pair), "why": why})
        else:
            session.say(why)
    elif as_json:
        session.show_json(partition_record(problem, made))
    else:
        session.show(partition_report(problem, made))


def size_rules(settings: Sequence[str]) -> SizeRules | None:
    """Read ``KEY=VALUE`` texts; None where there is none.

    Raises UsageError for an unknown key, with the nearest, or a value that does not fit.
    """
    from hetsim.partitioning.sizes import SizeRules

    if not settings:
        return None
    known = tuple(field.name for field in fields(SizeRules))
    read: dict[str, Any] = {}
    for text in settings:
        key, _, value = text.partition("=")
        if key not in known:
            raise UsageError(f"no size rule '{key}'", where="--set", hint=nearest(key, known))
        if key == "fit_weights":
            if value not in ("true", "false"):
                raise UsageError(f"'{text}' is neither true nor false", where="--set")
            read[key] = value == "true"
        elif value.isascii() and value.isdigit():
            read[key] = int(value)
        else:
            raise UsageError(f"'{text}' has no whole number", where="--set", hint=f"write {key}=2")
    return SizeRules(**read)


def _compare(
    problem: Problem,
    names: Sequence[str],
    order: Sequence[str] | None,
    sizes: SizeRules | None,
    *,
    as_json: bool,
) -> None:
    from hetsim.errors import OutOfMemory
    from hetsim.partitioning.methods import partition as cut
    from hetsim.plans import Plan
    from hetsim.reporting.methods_table import method_row, methods_record, methods_report
    from hetsim.simulation.clock import simulate

    session = current()
    rows = []
    for name in names:
        with session.progress(f"partitioning with {name}"):
            began = time.process_time()
            made = cut(problem, name, priority=order, sizes=sizes)
            cpu_s = time.process_time() - began
        try:
            latency_s = simulate(Plan(problem, name, made.groups)).latency_s
        except OutOfMemory:
            latency_s = float("inf")
        rows.append(method_row(problem, made, latency_s, cpu_s))
    if as_json:
        session.show_json(methods_record(problem, rows))
    else:
        session.show(methods_report(problem, rows))
