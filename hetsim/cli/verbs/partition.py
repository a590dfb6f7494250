"""``hetsim partition``, and its rules as KEY=VALUE texts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetsim.cli.commands import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.common import force_option, verb_options
from hetsim.cli.options.question import FROM_MODEL, model_options, platform_options, price_options
from hetsim.cli.question import read_problem
from hetsim.errors import InvalidInput, OutOfMemory, UsageError, nearest
from hetsim.partitioning.housekeeping import Housekeeping
from hetsim.partitioning.sizes import SizeRules
from hetsim.reporting.output import check_file, write_file

if TYPE_CHECKING:
    from hetsim.partitioning.partition import Partition
    from hetsim.problem.problem import Problem


_NUMBERS = ("min_nodes", "max_groups", "max_nodes_per_group")
KEYS = (*_NUMBERS, "fit_weights", "housekeeping", "housekeeping_ops")


def read_rules(settings: Sequence[str]) -> tuple[SizeRules | None, Housekeeping | None]:
    """Read ``KEY=VALUE`` texts, each key once; None if there is no key of theirs.

    Raises UsageError for an unknown key, with the nearest, a repeated one, or a value that does not
    fit.
    """
    sizes: dict[str, Any] = {}
    housekeeping: dict[str, Any] = {}
    seen: set[str] = set()
    for text in settings:
        key, _, value = text.partition("=")
        if key in seen:
            raise UsageError(f"'{key}' is given twice", where="--set", hint="leave one out")
        seen.add(key)
        if key not in KEYS:
            raise UsageError(f"no rule '{key}'", where="--set", hint=nearest(key, KEYS))
        if key == "fit_weights":
            if value not in ("true", "false"):
                raise UsageError(f"'{text}' is neither true nor false", where="--set")
            sizes[key] = value == "true"
        elif key in _NUMBERS:
            if not (value.isascii() and value.isdigit()):
                raise UsageError(
                    f"'{text}' has no whole number", where="--set", hint=f"write {key}=2"
                )
            sizes[key] = int(value)
        elif key == "housekeeping":
            housekeeping["mode"] = value
        else:
            ops = frozenset(op.strip() for op in value.split(","))
            if not all(ops):
                raise UsageError(
                    f"'{text}' has an empty op type",
                    where="--set",
                    hint="write housekeeping_ops=Transpose,Reshape",
                )
            housekeeping["ops"] = ops
    if "ops" in housekeeping and housekeeping.get("mode", "assigned") == "assigned":
        raise UsageError(
            "housekeeping_ops without a way to treat them",
            where="--set",
            hint="add --set housekeeping=follow or --set housekeeping=default",
        )
    made = SizeRules(**sizes) if sizes else None
    kept = Housekeeping(**housekeeping) if housekeeping else None
    for one in (kept, made):
        if one is not None:
            one.check()
    return made, kept


ALL = "all"


@click.command(
    cls=Command,
    examples=(
        ("hetsim partition zoo:inception_v1 --platform rock-5b",
         "Which subgraphs go to which device?"),
        ("hetsim partition zoo:inception_v1 --platform rock-5b --method all",
         "Which merge method makes the fewest subgraphs?"),
        ("hetsim partition zoo:inception_v1 --platform rock-5b --onnx parts",
         "Write one ONNX model for each subgraph."),
    ),
)  # fmt: skip
@click.argument("model")
@platform_options
@price_options
@click.option(
    "--method",
    default="compact",
    show_default=True,
    metavar="NAME",
    help="Merge nodes by this method, or compare `all`; `hetsim compare --strategies` lists them.",
)
@click.option(
    "--priority",
    metavar="DEVICE,...",
    help="Assign each node to the first of these devices that supports it, e.g. npu,gpu,cpu; or "
    "`by-memory`.  [default: all devices, the host last]",
)
@click.option(
    "--affinity",
    metavar="FILE",
    help="Pin nodes to devices, exclude them, or set a default device, by a JSON or YAML file, or "
    "by the metadata of the nodes (`model`).",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a rule: min_nodes, max_groups, max_nodes_per_group, fit_weights, housekeeping or "
    "housekeeping_ops. Repeatable.",
)
@click.option(
    "--explain",
    "pair",
    nargs=2,
    metavar="NODE NODE",
    help="Show why these two nodes are in the same subgraph, or not.",
)
@click.option(
    "--dot", type=click.Path(path_type=Path), help="Write a Graphviz drawing to this file."
)
@click.option(
    "--mermaid", type=click.Path(path_type=Path), help="Write a Mermaid drawing to this file."
)
@click.option(
    "--onnx",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write split.onnx, annotated.onnx and one model for each subgraph to this new folder.",
)
@force_option("Overwrite the files of --dot and --mermaid.")
@model_options
@verb_options
def partition(
    model: str,
    method: str,
    priority: str | None,
    affinity: str | None,
    settings: tuple[str, ...],
    pair: tuple[str, str] | None,
    dot: Path | None,
    mermaid: Path | None,
    folder: Path | None,
) -> None:
    """Cut MODEL into subgraphs, each of which one device can run as a whole."""
    from hetsim.partitioning.affinity import affinity_of_model
    from hetsim.partitioning.affinity_file import load_affinity
    from hetsim.partitioning.deconflict import parse_priority
    from hetsim.partitioning.flow import partition as cut
    from hetsim.partitioning.methods.registry import methods
    from hetsim.reporting.tables.plan import partition_report

    invocation = current()
    known = [info.name for info in methods()]
    if method not in (*known, ALL):
        raise UsageError(f"no merge method '{method}'", hint=nearest(method, (*known, ALL)))
    if priority is not None:
        parse_priority(priority, "--priority")
    sizes, housekeeping = read_rules(settings)
    wishes = load_affinity(affinity) if affinity not in (None, FROM_MODEL) else None
    pictures = {"--dot": dot, "--mermaid": mermaid}
    for option, path in pictures.items():
        if path is not None:
            check_file(path, force=invocation.force, option=option)
    if folder is not None:
        from hetsim.partitioning.onnx_export import check_folder

        check_folder(folder)
    if method == ALL and (pair or dot or mermaid or folder):
        raise UsageError(
            "--explain, --dot, --mermaid and --onnx need one method", hint="give --method NAME"
        )
    problem = read_problem(model)
    if problem.n == 0:
        raise InvalidInput(
            "the model has no nodes to place: it is empty, or all of it is constant", where=model
        )
    if affinity == FROM_MODEL:
        wishes = affinity_of_model(problem)
    asked = partial(
        cut,
        problem,
        priority=priority,
        affinity=wishes,
        sizes=sizes,
        housekeeping=housekeeping,
    )
    if method == ALL:
        _compare(problem, known, asked)
        return
    with invocation.progress(f"partitioning with {method}"):
        made = asked(method)
    for option, path in pictures.items():
        if path is not None:
            text = made.to_dot() if option == "--dot" else made.to_mermaid()
            write_file(path, text, force=invocation.force, option=option)
            invocation.note(f"wrote {path}")
    if folder is not None:
        with invocation.progress(f"writing {folder}"):
            names = made.save_onnx(folder)
        invocation.note(f"wrote {len(names)} models to {folder}")
    if pair:
        why = made.explain(*pair)
        if invocation.as_json:
            invocation.show_json({"schema": "hetsim-explain/1", "nodes": list(pair), "why": why})
        else:
            invocation.say(why)
    elif invocation.as_json:
        click.echo(made.to_json(), nl=False)
    else:
        invocation.show(partition_report(made))


def _compare(problem: Problem, names: Sequence[str], asked: Callable[[str], Partition]) -> None:
    from hetsim.problem.plan import Plan
    from hetsim.reporting.tables.plan import method_row, methods_record, methods_report
    from hetsim.simulation.simulate import simulate

    invocation = current()
    rows = []
    for name in names:
        with invocation.progress(f"partitioning with {name}"):
            began = time.process_time()
            made = asked(name)
            cpu_s = time.process_time() - began
        try:
            latency_s = simulate(Plan(problem, name, made.groups)).latency_s
        except OutOfMemory:
            latency_s = float("inf")
        rows.append(method_row(problem, made, latency_s, cpu_s))
    invocation.answer(lambda: methods_record(problem, rows), lambda: methods_report(problem, rows))
