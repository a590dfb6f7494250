"""How sure a comparison is: the interval of every row, how often it is best, and the regret."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from hetsim.analysis.comparison import Comparison, Row
from hetsim.analysis.sureness import Interval, Spread, Sureness
from hetsim.core.text import fields, plain
from hetsim.core.units import format_seconds
from hetsim.reporting.words.console import Heading, table
from hetsim.reporting.words.like_devices import fold_rows
from hetsim.reporting.words.text import between, name_lines, percent, ratio


def sureness_table(comparison: Comparison, *, wide: bool = False) -> Table:
    """Return one line a row with a plan, in the order of the comparison; like devices are one.

    `wide` adds the regret in seconds; the share of the samples in which the row is no slower than
    the best device alone, and what it loses to it, relative.
    """
    counted = "latency" if comparison.objective == "latency" else "time a request"
    regret = "#regret,\nmean", "#regret,\n1 in 10"
    more = (*regret, "#pays,\n%", "#loss,\nmean", "#loss,\n1 in 10") if wide else ()
    rows = fold_rows(
        [row for row in comparison.rows if row.sure is not None],
        lambda row: row.strategy,
        lambda row: tuple(_figures(row, wide=wide)),
    )
    return table(
        (
            Heading("strategy", 10),
            f"#80 % of samples:\n{counted}",
            "#vs best\nsingle",
            "#best,\n%",
            *regret,
            *more,
        ),
        ((name_lines(name), *_figures(row, wide=wide)) for name, row in rows),
    )


def _figures(row: Row, *, wide: bool) -> list[str]:
    sure = row.sure
    assert sure is not None
    found = [
        between(format_seconds(sure.cost_s.low), format_seconds(sure.cost_s.high)),
        speedup_text(sure.speedup),
        percent(sure.best).removesuffix(" %"),
        percent(sure.regret_mean, sign=True),
        percent(sure.regret_p90, sign=True),
    ]
    if wide:
        found += [
            format_seconds(sure.regret_mean_s),
            format_seconds(sure.regret_p90_s),
            percent(sure.pays).removesuffix(" %"),
            percent(sure.loss_mean, sign=True),
            percent(sure.loss_p90, sign=True),
        ]
    return found


def speedup_text(interval: Interval | None) -> str:
    """Return ``0.71 to 1.60x``; a dash where there is no device alone."""
    if interval is None:
        return ratio(None)
    low, high = (ratio(end).removesuffix("x") for end in (interval.low, interval.high))
    return f"{between(low, high)}x"


def sureness_line(comparison: Comparison) -> Text:
    """Return ``sureness_text`` after what it is about."""
    return Text.assemble(("How sure: ", "bold"), sureness_text(comparison))


def sureness_text(comparison: Comparison) -> str:
    """Return in a sentence or two how sure the plan to take is, and what another would risk."""
    found = comparison.verdict
    assert found.take is not None
    assert found.sure is not None
    told = (
        f"{plan_name(found.take.strategy)} is the fastest compared in {percent(found.sure.best)} "
        f"of {comparison.draws} Monte Carlo samples of what the figures may be off by; "
        f"{_regret(found.sure)}."
    )
    tried, over = found.tried, found.over
    if tried is None or over is None or len(over.devices) > 1:
        return told
    for row in comparison.rows:
        if row.strategy == tried.strategy and row.sure is not None and row.sure.loss_mean:
            lost = f"{percent(row.sure.loss_mean)} to {plan_name(over.strategy)}"
            told += f" {plan_name(tried.strategy)} loses {lost} on average."
    return told


def plan_name(strategy: str) -> str:
    """Return a strategy as text; ``npu alone`` of ``single:npu``."""
    kind, _, device = strategy.partition(":")
    return plain(f"{device} alone" if kind == "single" and device else strategy)


def _regret(sure: Sureness) -> str:
    if sure.regret_mean == 0:
        return "nothing that was compared is faster in any"
    return (
        f"taking it costs {percent(sure.regret_mean)} more than the fastest of each on average, "
        f"over {percent(sure.regret_p90)} more in one of ten"
    )


def sureness_record(sure: Sureness | None) -> dict[str, Any] | None:
    """Return a row's sureness as a record for ``to_json``; None where nothing was drawn."""
    if sure is None:
        return None
    return {
        "cost_s": interval_record(sure.cost_s),
        "speedup_over_best_single": interval_record(sure.speedup),
        **fields(
            sure,
            "best regret_mean_s regret_p90_s regret_mean regret_p90 pays loss_mean loss_p90",
        ),
    }


def spread_record(spread: Spread | None) -> dict[str, Any] | None:
    """Return what 80 % of the samples of some requests are between; None without samples."""
    if spread is None:
        return None
    return {
        "latency_mean_s": interval_record(spread.latency_s),
        "makespan_s": interval_record(spread.makespan_s),
        **fields(spread, "draws draw_seed"),
    }


def interval_record(interval: Interval | None) -> dict[str, float] | None:
    """Return what 80 % of the samples are between."""
    return None if interval is None else {"p10": interval.low, "p90": interval.high}
