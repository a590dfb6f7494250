"""The verb ``strategies``: a record of each, with what it promises and its options."""

from __future__ import annotations

from functools import partial

from hetsim.core.entries import Entry
from hetsim.core.plugins import plugin_owner
from hetsim.placement.options import describe_options
from hetsim.placement.registry import GROUP, OWN, strategy_class, strategy_names

_ENTRIES = {
    entry.name: entry
    for entry in (
        Entry(
            "single",
            "single[:DEVICE]",
            "the whole model on one device; without a name, on the one that is fastest alone",
            ("latency",),
            _options=partial(describe_options, "single"),
        ),
        Entry(
            "hetero",
            "hetero[:DEVICE,DEVICE,...]",
            "each node on the first device of a priority list that supports it",
            _options=partial(describe_options, "hetero"),
        ),
        Entry(
            "pipeline",
            "pipeline[:DEVICE,DEVICE,...]",
            "stages from the front of the model, as large as each device's memory allows",
            needs=("memory capacities of the devices",),
            _options=partial(describe_options, "pipeline"),
        ),
        Entry(
            "multi",
            "multi[:DEVICE,DEVICE,...]",
            "for throughput: the whole model on each of several devices, requests dealt out",
            ("throughput", "replicas"),
            _options=partial(describe_options, "multi"),
        ),
        Entry(
            "heft",
            "heft",
            "list scheduling by upward rank, earliest finish time with insertion",
            ("latency",),
            _options=partial(describe_options, "heft"),
        ),
        Entry(
            "cpop",
            "cpop",
            "list scheduling with the critical path on one device",
            ("latency",),
            _options=partial(describe_options, "cpop"),
        ),
        Entry(
            "peft",
            "peft",
            "list scheduling with an optimistic look at the way out, for dear transfers",
            ("latency",),
            _options=partial(describe_options, "peft"),
        ),
        Entry(
            "lookahead",
            "lookahead",
            "list scheduling where a node's children would finish first, for dear transfers",
            ("latency",),
            _options=partial(describe_options, "lookahead"),
        ),
        Entry(
            "dls",
            "dls",
            "list scheduling by dynamic level: the best pair of ready node and device is next",
            ("latency",),
            _options=partial(describe_options, "dls"),
        ),
        Entry(
            "etf",
            "etf",
            "list scheduling by earliest end on a device with room: knows speed and memory",
            ("latency",),
            _options=partial(describe_options, "etf"),
        ),
        Entry(
            "mincut",
            "mincut",
            "least total of compute and transfers, exact on two devices",
            ("latency",),
            _options=partial(describe_options, "mincut"),
        ),
        Entry(
            "chain-dp",
            "chain-dp[:latency|throughput]",
            "runs of a topological order, for latency or for throughput",
            ("latency", "throughput"),
            _options=partial(describe_options, "chain-dp"),
        ),
        Entry(
            "ideal-dp",
            "ideal-dp",
            "for throughput: the least bottleneck of contiguous stages, exact up to a budget",
            ("throughput", "proof"),
            _options=partial(describe_options, "ideal-dp"),
        ),
        Entry(
            "slice",
            "slice",
            "for throughput: stages cut from many topological orders, on graphs of any size",
            ("throughput",),
            _options=partial(describe_options, "slice"),
        ),
        Entry(
            "local-search",
            "local-search",
            "annealing from the best list schedule or device, for latency or throughput",
            ("latency", "throughput"),
            _options=partial(describe_options, "local-search"),
        ),
        Entry(
            "exact",
            "exact",
            "the shortest makespan with a proof or the gap, up to about 50 tasks (extra 'exact')",
            ("latency", "proof"),
            needs=("OR-tools: pip install 'hetsim[exact]'",),
            _options=partial(describe_options, "exact"),
        ),
        Entry(
            "auto",
            "auto",
            "the best of all strategies and every device alone, by the clock",
            ("latency", "throughput", "replicas"),
            _options=partial(describe_options, "auto"),
        ),
    )
}


def strategies() -> tuple[Entry, ...]:
    """List the strategies, by name; those of other packages that cannot be used are left out.

    ``plugins.plugin_complaints`` says why they cannot. What another package adds says of itself
    what it promises and needs by class variables ``promises`` and ``needs``.
    """
    return tuple(_ENTRIES[name] if name in OWN else _added(name) for name in strategy_names())


def promises_of(strategy: str) -> tuple[str, ...]:
    """Return what a strategy promises, with its argument or without."""
    name = strategy.partition(":")[0]
    return _ENTRIES[name].promises if name in OWN else _added(name).promises


def _added(name: str) -> Entry:
    made = strategy_class(name)
    return Entry(
        name,
        f"{name}[:...]" if hasattr(made, "parse") else name,
        (made.__doc__ or "").strip().partition("\n")[0] or "no summary",
        tuple(getattr(made, "promises", ())),
        tuple(getattr(made, "needs", ())),
        plugin_owner(GROUP, name),
        partial(describe_options, name),
    )
