"""``hetsim compare --strategies``: strategies and merge methods, with their options."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hetsim.cli.invocation import current
from hetsim.core.text import fields
from hetsim.errors import UsageError, nearest

if TYPE_CHECKING:
    from rich.table import Table

    from hetsim.core.plugins import Entry


def show_strategies(name: str) -> None:
    """Print the strategies and the merge methods, or the details of the one called `name`."""
    from hetsim.partitioning.methods.registry import methods
    from hetsim.placement.registry import strategies as known

    invocation = current()
    if name:
        _show_one((*known(), *methods()), name)
        return
    _tell_complaints()
    if invocation.as_json:
        invocation.show_json(
            {
                "schema": "hetsim-strategies/2",
                "strategies": [_record(entry) for entry in known()],
                "methods": [_record(entry) for entry in methods()],
            }
        )
        return
    from hetsim.reporting.console import stack
    from hetsim.reporting.tables.comparison import names_table

    def listed(option: str, entries: Iterable[Entry]) -> Table:
        rows = ((entry.usage, entry.summary) for entry in entries)
        return names_table((option, "what it does"), rows)

    invocation.show(stack(listed("--strategy", known()), listed("--method", methods())))


def _tell_complaints() -> None:
    from hetsim.core.plugins import plugin_complaints
    from hetsim.cost.registry import GROUP as COST_MODELS
    from hetsim.device.registry import GROUP as DEVICES
    from hetsim.device.registry import SIMULATED
    from hetsim.placement.registry import GROUP as STRATEGIES
    from hetsim.placement.registry import OWN

    for group, own in (
        (STRATEGIES, OWN),
        (DEVICES, (SIMULATED,)),
        (COST_MODELS, ("roofline",)),
    ):
        for complaint in plugin_complaints(group, own):
            current().note(f"warning: {complaint}")


def _show_one(entries: tuple[Entry, ...], name: str) -> None:
    from hetsim.core.plugins import PROMISES
    from hetsim.reporting.tables.comparison import names_table

    invocation = current()
    by_name = {entry.name: entry for entry in entries}
    entry = by_name.get(name.partition(":")[0])
    if entry is None:
        raise UsageError(f"no strategy or merge method '{name}'", hint=nearest(name, by_name))
    if invocation.as_json:
        invocation.show_json({"schema": "hetsim-strategy/1", **_record(entry)})
        return
    about = [("what it does", entry.summary), ("provided by", entry.provider)]
    about += [("promises", PROMISES.get(promise, promise)) for promise in entry.promises]
    about += [("needs", need) for need in entry.needs]
    invocation.show(names_table((entry.usage, ""), about))
    if entry.options:
        invocation.say("")
        rows = (
            (
                option.name,
                f"{option.kind}, {option.default or 'none'} unless given. {option.meaning}".strip(),
            )
            for option in entry.options
        )
        invocation.show(names_table((f"--set of {entry.name}", "what it takes, and does"), rows))


def _record(entry: Entry) -> dict[str, Any]:
    return fields(
        entry, "name usage summary promises needs provider options(name type=kind default meaning)"
    )
