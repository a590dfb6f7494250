"""docs/confidence.md, out of the lines that ``benchmarks/confidence.py`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy

LOW, HIGH = 0.93, 0.97

HEAD = """\
# How often intervals hold the truth

`benchmarks/confidence.py` plays queues whose answers are known, by the engine that serves
deployments, and counts how often the 95 % interval that a run gives holds the true figure. Its
lines are `data/confidence.jsonl`, and this file is made of them:

    python benchmarks/confidence.py --seeds 400 > data/confidence.jsonl
    python benchmarks/confidence.py --document docs/confidence.md < data/confidence.jsonl

Each run is looked at after 2^14 requests, and whenever there are twice as many, until it says of a
figure that it is long enough. *Requests* is how many that took, *off by* half of the interval over
the truth, *below* how many intervals were all below it. How intervals are made is
[decision 24](decisions/24-busy-periods.md); the laws are tests in `tests/closed_forms`, the exact
solutions in `tests/oracles/queueing`.
"""


def document(lines: Iterable[dict[str, Any]]) -> str:
    """Return the document."""
    records = list(lines)
    laws = _ordered([one for one in records if one["kind"] == "law"])
    others = [one for one in records if one["kind"] == "other"]
    errors = {
        (one["law"], one["figure"]): one["error"] for one in records if one["kind"] == "truth"
    }
    parts = [HEAD, "## Queues of known answers\n", _summary(laws), _table(laws, {})]
    parts += [
        "## Queues on which nothing was tuned\n",
        "Their truth is that of eight runs of 2^22 requests, with its standard error.\n",
        _summary(others),
        _table(others, errors),
        "## Verdicts\n",
        _verdicts([one for one in records if one["kind"] == "verdict"]),
    ]
    return "\n".join(parts)


def _ordered(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """By queue, as they first come, then by load."""
    first = {one["law"]: at for at, one in reversed(list(enumerate(found)))}
    return sorted(found, key=lambda one: (first[one["law"]], one["load"]))


def outside(one: dict[str, Any]) -> bool:
    """Whether less than 93 or more than 97 of 100 intervals held the truth."""
    return not LOW <= one["held"] / one["seeds"] <= HIGH


def outside_still(one: dict[str, Any]) -> bool:
    """Whether it is so of the further seeds, too."""
    more = one["more"]
    return outside(one) and (more is None or not LOW <= more["held"] / more["enough"] <= HIGH)


def _summary(found: Sequence[dict[str, Any]]) -> str:
    if not found:
        return ""
    seeds = found[0]["seeds"]
    # Of intervals that hold the truth in just 95 of 100.
    chance = 1 - float(
        scipy.stats.binom.cdf(HIGH * seeds + 1e-9, seeds, 0.95)
        - scipy.stats.binom.cdf(LOW * seeds - 1e-9, seeds, 0.95)
    )
    held = sum(one["held"] for one in found)
    enough = sum(one["enough"] for one in found)
    out = [one for one in found if outside(one)]
    still = [one for one in out if outside_still(one)]
    text = (
        f"{len(found)} figures, {seeds} seeds each: {100 * held / enough:.1f} % of all intervals "
        f"hold the truth. Of {len(found) - len(out)} figures 93 to 97 % do, of {len(out)} less or "
        f"more; of intervals that hold it in just 95 of 100 there would be "
        f"{chance * len(found):.0f} such figures by chance."
    )
    if not out:
        return text + "\n"
    text += " These were told again over 2,000 seeds: "
    if not still:
        return text + "all are within 93 to 97 % then.\n"
    names = "; ".join(f"{one['law']} at {one['load']:g}, {one['figure']}" for one in still)
    return text + f"{len(still)} are not within 93 to 97 % then, either: {names}.\n"


def _table(found: Sequence[dict[str, Any]], errors: dict[tuple[str, str], float]) -> str:
    heads = ["queue", "load", "figure", "truth", "held, %", "below", "above", "of 2,000, %"]
    heads += ["off by, %", "requests"]
    rows = []
    for one in found:
        more = one["more"]
        truth = f"{one['truth']:.4g}"
        if error := errors.get((one["law"], one["figure"])):
            truth += f", off by {100 * error:.2f} %"
        rows.append(
            [
                one["law"],
                f"{one['load']:g}",
                one["figure"],
                truth,
                f"{100 * one['held'] / one['enough']:.1f}" if one["enough"] else "-",
                str(one["below"]),
                str(one["above"]),
                f"{100 * more['held'] / more['enough']:.1f}" if more else "",
                f"{100 * one['half_width']:.1f}",
                f"{one['requests']:,.0f}",
            ]
        )
    return _markdown(heads, rows)


def _verdicts(found: Sequence[dict[str, Any]]) -> str:
    if not found:
        return ""
    wrong = {"meets": 0, "misses": 0}
    for one in found:
        if one["answer"] == ("misses" if one["factor"] > 1 else "meets"):
            wrong[one["answer"]] += 1
    undecided = sum(one["answer"] == "undecided" for one in found)
    cpu = np.array([one["cpu_s"] for one in found])
    loadgen = sum(one["mlperf"] != (one["factor"] > 1) for one in found)
    heads = ["limit over p99", "cases", "meets", "misses", "undecided", "requests, median"]
    rows = []
    for factor in sorted({one["factor"] for one in found}):
        mine = [one for one in found if one["factor"] == factor]
        rows.append(
            [
                f"{factor:g}",
                str(len(mine)),
                *(str(sum(one["answer"] == each for one in mine)) for each in _ANSWERS),
                f"{np.median([one['requests'] for one in mine]):,.0f}",
            ]
        )
    text = (
        f"{len(found)} objectives (M/D/1, M/M/1, M/G/1, M/D/c, Erlang-C and batches, at loads of "
        f"0.3 to 0.95, within 4 million requests): {wrong['meets']} false `meets`, "
        f"{wrong['misses']} false `misses`, {undecided} undecided; {cpu.mean():.2f} CPU seconds a "
        f"case, {cpu.max():.1f} at most. Of the same runs LoadGen's early stopping calls {loadgen} "
        f"valid that are not, or invalid that are.\n"
    )
    return text + "\n" + _markdown(heads, rows)


_ANSWERS = ("meets", "misses", "undecided")


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
