"""``hetsim lint``: what costs time, and which change takes it away, planned again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from hetsim.cli.commands import Command
from hetsim.cli.invocation import current
from hetsim.cli.options.common import (
    common_options,
    json_option,
    report_options,
    wide_option,
)
from hetsim.cli.options.question import (
    device_option,
    model_options,
    platform_options,
    strategy_options,
)

if TYPE_CHECKING:
    from hetsim.analysis.lint.lint import Lint

_LIMIT = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(%|s|ms|us|ns)")
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True, slots=True)
class Limit:
    """What one change may gain before the verb fails: seconds, or a part of the present time."""

    text: str
    amount: float
    share: bool


def _limit(ctx: click.Context, param: click.Parameter, text: str | None) -> Limit | None:
    """Read ``5%`` or ``2ms``."""
    if text is None:
        return None
    found = _LIMIT.fullmatch(text.strip())
    if found is None:
        raise click.BadParameter(f"'{text}' is no time or part of one, e.g. 2ms or 5%", ctx, param)
    if found[2] == "%":
        return Limit(text, float(found[1]) / 100, share=True)
    return Limit(text, float(found[1]) * _SECONDS[found[2]], share=False)


@click.command(cls=Command)
@click.argument("model")
@platform_options
@strategy_options
@device_option
@click.option(
    "--fail-on",
    metavar="TIME|PERCENT",
    default=None,
    callback=_limit,
    help="End with exit code 5 where a change saves so much or more, e.g. 2ms or 5%.",
)
@model_options
@wide_option
@report_options
@json_option
@common_options
def lint(
    model: str,
    device: str | None,
    fail_on: Limit | None,
    wide: bool,
) -> None:
    """Say what costs MODEL time on a platform, each with the change that takes it away.

    Looked for are nodes that devices refuse, and for what; precisions that are slow there; weights
    beyond a chip's memory; a split that does not pay; tensors that go to and fro; subgraphs that
    take longer to start than to run; links. After every change the same strategy plans again: what
    it saves is that difference.
    """
    from hetsim.analysis.lint.lint import lint as look
    from hetsim.cli.files import check_targets, leave_report
    from hetsim.cli.question import (
        DEFAULT_STRATEGY,
        read_problem,
        read_strategy_options,
        with_affinity,
    )
    from hetsim.reporting.tables.analysis import lint_record, lint_report

    invocation = current()
    check_targets()
    name = invocation.strategy or DEFAULT_STRATEGY
    options = read_strategy_options((name,))
    problem = read_problem(model)
    options = with_affinity(options, problem)
    with invocation.progress("planning after every change"):
        found = look(
            problem, name, device=device, objective=invocation.objective or "latency", **options
        )
    record = lint_record(found)
    leave_report(record, dict, lambda: lint_report(found, wide=True))
    invocation.answer(lambda: record, lambda: lint_report(found, wide=wide))
    if fail_on is not None:
        _check(found, fail_on)


def _check(found: Lint, limit: Limit) -> None:
    """Raise ObjectiveMissed where a change saves as much as the user allows none to."""
    from hetsim.core.units import format_seconds
    from hetsim.errors import ObjectiveMissed

    for one in (*found.findings, *found.others):
        if (one.gain if limit.share else one.gain_s) >= limit.amount:
            saves = (
                "makes it run"
                if one.before_s is None
                else f"saves {format_seconds(one.gain_s)} ({100 * one.gain:.3g} %)"
            )
            raise ObjectiveMissed(
                f"a change {saves}, and --fail-on is {limit.text}: {one.what}; {one.change.say}",
                where=found.problem.name,
                objective=found.asked.objective,
                target_s=0.0 if limit.share else limit.amount,
                reached_s=one.gain_s,
            )
