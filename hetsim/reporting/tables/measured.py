"""What of the prices is measured, from which profile, and what of it was not used."""

from __future__ import annotations

from hetsim.base.text import plain
from hetsim.base.units import format_seconds
from hetsim.cost.profiles.record import MeasuredShare
from hetsim.problem.problem import Problem
from hetsim.reporting.words.like_devices import fold_siblings, folded
from hetsim.reporting.words.text import count, percent

SHOWN = 3
"""Kernels that match no node which are listed; the problem's record has all."""

_NAME = 40


def measured_rows(problem: Problem) -> list[tuple[str, str]]:
    """Return the lines that say what is measured; none where no profile was given."""
    if not problem.profiles:
        return []
    told = [_share(name, problem.profiles[first[0]]) for name, first in _alike(problem)]
    modelled = [name for name in problem.devices if name not in problem.profiles]
    if modelled:
        told.append(f"{', '.join(folded(modelled))}: modelled")
    rows = [("measured", "; ".join(told))]
    for name, first in _alike(problem):
        rows += _of_profile(name, problem.profiles[first[0]])
    return rows


def _alike(problem: Problem) -> list[tuple[str, list[str]]]:
    """Devices with profiles, numbered siblings of one profile as a range."""
    names = [name for name in problem.devices if name in problem.profiles]
    return [
        (name if same else each, [each])
        for name, run in fold_siblings(names)
        for same in [len({problem.profiles[one].profile.sha256 for one in run}) == 1]
        for each in (run[:1] if same else run)
    ]


def _share(name: str, share: MeasuredShare) -> str:
    done = sum(share.measured)
    rest = "" if done == share.nodes else "; the rest modelled"
    return (
        f"{name}: {percent(share.share)} of its time, {done} of {count(share.nodes, 'node')}{rest}"
    )


def _of_profile(name: str, share: MeasuredShare) -> list[tuple[str, str]]:
    profile = share.profile
    used_s = share.by_name_s + share.by_place_s
    text = (
        f"{name}: {profile.format} {plain(profile.source)}, {count(profile.runs, 'run')}: "
        f"{profile.rule}; its kernels take {format_seconds(profile.total_s)}, "
        f"used {format_seconds(used_s)}"
    )
    if share.by_place_s > 0:
        text += f", {format_seconds(share.by_place_s)} of it matched by place"
    if len(profile.totals_s) > 1:
        low, high = min(profile.totals_s), max(profile.totals_s)
        text += f"; runs from {format_seconds(low)} to {format_seconds(high)}"
    if profile.between_s:
        text += f"; {format_seconds(profile.between_s)} a run outside of kernels is in no price"
    rows = [("profile", text)]
    if share.unmatched:
        rows.append(
            ("not matched", f"{name}: {format_seconds(share.unmatched_s)}: {_kernels(share)}")
        )
    apart = [
        f"{format_seconds(seconds)} {what}"
        for seconds, what in (
            (share.elsewhere_s, "by kernels of other units"),
            (share.moved_s, "by copies, for which links are priced"),
        )
        if seconds > 0
    ]
    if apart:
        rows.append(("not its own", f"{name}: {', '.join(apart)}"))
    return rows


def _kernels(share: MeasuredShare) -> str:
    shown = ", ".join(
        f"{plain(kernel.name[:_NAME])} {format_seconds(kernel.seconds)} ({kernel.why})"
        for kernel in share.unmatched[:SHOWN]
    )
    more = len(share.unmatched) - SHOWN
    return f"{shown}, +{more} more" if more > 0 else shown
