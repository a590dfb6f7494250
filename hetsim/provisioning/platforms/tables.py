"""From files to numbers: every model on every device that can be had, in every batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hetsim.core.going import each, part
from hetsim.cost.kernels.as_fitted import executed_dtype
from hetsim.device.support.executed import is_quantized
from hetsim.errors import UsageError, WorkloadError
from hetsim.graph.work import graph_work
from hetsim.hardware.routes import build_routes
from hetsim.hardware.spec import Platform
from hetsim.problem.problem import Problem
from hetsim.provisioning.platforms.any_plan import AnyPlan, any_plan
from hetsim.provisioning.platforms.arriving import arrivals_of
from hetsim.provisioning.platforms.catalog import Catalog, Entry, HostEntry
from hetsim.provisioning.platforms.composing import FRONT, Pieces, composed, pieces_of
from hetsim.provisioning.platforms.pricing import costs_of
from hetsim.provisioning.platforms.question import (
    BATCHES,
    Aim,
    Ask,
    Class,
    Counts,
    DeviceType,
    Kind,
    Off,
    Priced,
    Question,
    Stream,
    Way,
)
from hetsim.provisioning.platforms.splitting import splits_of
from hetsim.provisioning.platforms.ways import off_of, requests_for, resolved_for, ways_of
from hetsim.provisioning.rates.ceiling import rates_of
from hetsim.simulation.service.asked import Asked
from hetsim.simulation.service.batch_dim import batch_dims
from hetsim.simulation.service.cost import Prices
from hetsim.simulation.service.resolving import Made
from hetsim.simulation.service.running import expected
from hetsim.workload.deployment import DynamicBatching, Instances, Served
from hetsim.workload.workload import Workload

MOST_GIVEN = 2**24
"""Given requests that are played at most."""


def question_of(
    workload: Workload,
    catalog: Catalog,
    *,
    aim: Aim,
    max_devices: int,
    terms: Prices,
    asked: Asked | None = None,
    losses: int = 0,
) -> tuple[Question, tuple[Pieces, ...]]:
    """Return the question in numbers, and what its kinds bring to a platform.

    Each model is planned for on each device alone, in each batch size that it takes.

    Raises
    ------
    UsageError
        Where a price is not known, clients wait for answers, or devices fail.
    WorkloadError, PlatformError
        Where what is read cannot be used.

    Complexity: a plan for each model, binding of its dimensions, device and batch size.
    """
    _check(workload)
    asked = Asked() if asked is None else asked
    pieces = pieces_of(catalog)
    count = len(catalog.kinds)
    pieces = (*pieces[count:], *pieces[:count])
    entries: tuple[Entry | HostEntry, ...] = (*catalog.hosts, *catalog.kinds)
    ones = [[int(at == k) for at in range(len(pieces))] for k in range(len(pieces))]
    alone = [
        replace(composed(pieces, row, one.name), price=one.price)
        for one, row in zip(pieces, ones, strict=True)
    ]
    costs = costs_of(aim, entries, alone, terms)
    types: list[DeviceType] = []
    kinds: list[Kind] = []
    names: list[tuple[str, ...]] = []
    for k, (entry, platform) in enumerate(zip(entries, alone, strict=True)):
        host = k < len(catalog.hosts)
        mine = tuple(name for name in platform.devices if host or name != FRONT)
        first = len(types)
        for name in mine:
            spec = platform.devices[name]
            types.append(DeviceType(name, spec.streams, spec.memory_bytes))
        most = 1 if host else min(getattr(entry, "most", None) or max_devices, max_devices)
        kinds.append(
            Kind(
                entry.name,
                tuple(range(first, len(types))),
                len(build_routes(platform)[0]),
                costs[k].whole,
                most,
                slots=getattr(entry, "slots", 0),
                in_slot=getattr(entry, "on_link", False),
                price=costs[k].price,
                parts=costs[k].parts,
            )
        )
        names.append(mine)
    models = tuple(dict.fromkeys(stream.model for stream in workload.streams))
    classes: list[Class] = []
    for at, model in enumerate(models):
        for stream in workload.streams:
            if stream.model == model:
                for dims in stream.variants:
                    if Class(at, dims) not in classes:
                        classes.append(Class(at, dims))
    tables = _Tables(models, tuple(classes), asked, pieces)
    nodes = len(catalog.hosts)
    together = tuple(int(k >= nodes) for k in range(len(pieces)))
    for k in each(
        (*range(nodes, len(pieces)), *range(nodes)),
        lambda k: kinds[k].name,
        lambda k: len(names[k]) or 1,
        high=0.8,
    ):
        counts = together if k >= nodes else tuple(ones[k])
        tables.add(counts, alone[k], names[k], kinds[k].devices)
    streams = tuple(Stream(one.name, models.index(one.model), one.slos) for one in workload.streams)
    given = not workload.drawn
    if given and expected(workload) > MOST_GIVEN:
        raise UsageError(
            f"about {expected(workload):.2g} requests come, above {MOST_GIVEN}",
            hint="write fewer requests:, or a shorter duration_s:",
        )
    rates = rates_of(workload) if not given else (None,) * len(streams)
    asks = []
    for at, one in enumerate(workload.streams):
        found = one.variants
        for dims in found:
            rate = rates[at]
            share = None if rate is None else rate / len(found)
            asks.append(Ask(at, classes.index(Class(models.index(one.model), dims)), share))
    question = Question(
        aim,
        max_devices,
        tuple(types),
        tuple(kinds),
        models,
        tuple(classes),
        streams,
        tuple(asks),
        tables.ways,
        given,
        workload.warm_up_s,
        free=tables.free(),
        off=tables.off,
        priced=tables.priced,
        losses=losses,
    )
    if given:
        question = replace(question, arrivals=arrivals_of(workload))
    with part(0.8, 1.0, "splits"):
        splits, off = splits_of(question, pieces, tables.sizes, tables.on, asked)
    return replace(question, splits=splits, off={**off, **question.off}), pieces


def _check(workload: Workload) -> None:
    if not any(stream.slos for stream in workload.streams):
        raise UsageError("no stream has an objective", hint="write slos: [p99=50ms], say")
    if workload.failures is not None:
        raise UsageError(
            "a platform is not looked for where devices fail", hint="leave failures out"
        )
    if workload.closed:
        raise UsageError(
            "clients wait for answers, so what comes depends on the platform",
            hint="write arrivals at a rate, or a replay",
        )
    if any(stream.priority is not None for stream in workload.streams):
        raise UsageError(
            "streams have priorities, and no deployment that is looked at has levels",
            hint="leave priority: out",
        )
    if workload.drawn and any(len(stream.variants) > 1 for stream in workload.streams):
        raise UsageError(
            "shapes follow a trace, and other requests are drawn by chance",
            hint="write constant arrivals, or a replay, for each stream",
        )


class _Tables:
    """What each device takes for each class, as it is found."""

    def __init__(
        self,
        models: tuple[str, ...],
        classes: tuple[Class, ...],
        asked: Asked,
        pieces: Sequence[Pieces],
    ) -> None:
        self._models, self._classes, self._asked = models, classes, asked
        self.sizes = [_sizes_of(model, classes, at, asked) for at, model in enumerate(models)]
        self.ways: dict[tuple[int, int], tuple[Way, ...]] = {}
        self.off: dict[tuple[int, int], Off] = {}
        self.priced: dict[tuple[int, int], Priced] = {}
        self._pieces = pieces
        self._made: dict[Counts, tuple[Platform, Made]] = {}

    def on(self, counts: Counts) -> tuple[Platform, Made]:
        """Return the platform of so many of each kind, and what is made for it."""
        if counts not in self._made:
            self._made[counts] = (composed(self._pieces, counts, "kinds"), Made())
        return self._made[counts]

    def free(self) -> tuple[AnyPlan, ...]:
        """By class: what no plan goes below on the devices that were added."""
        found = []
        for one in self._classes:
            sized: dict[int, list[Problem]] = {}
            for _, made in self._made.values():
                for (model, size, bound), problem in made.problems.items():
                    own = model == self._models[one.model]
                    if own and set(one.variant.items()) <= set(bound):
                        sized.setdefault(size, []).append(problem)
            found.append(any_plan(sorted(sized.items())))
        return tuple(found)

    def add(
        self, counts: Counts, unit: Platform, names: Sequence[str], types: Sequence[int]
    ) -> None:
        """Plan for each device of one kind, which stands on the platform of so many of each.

        `unit` is the platform of that kind alone, which says what its links are.
        """
        platform, made = self.on(counts)
        for name, of_type in zip(names, types, strict=True):
            for at, model in enumerate(self._models):
                mine = [k for k, one in enumerate(self._classes) if one.model == at]
                wanted = requests_for(model, self._classes, mine)
                by = Instances(1, (name,))
                one = resolved_for(model, self.sizes[at], by, wanted, (platform, made), self._asked)
                if one is None:
                    # A device that cannot serve a model has no way for its classes.
                    continue
                links = {link: at for at, link in enumerate(build_routes(unit)[0])}
                ways = ways_of(one, {own: slot for slot, own in enumerate(names)}, links)
                self.ways.update({(of_type, k): found for k, found in zip(mine, ways, strict=True)})
                p = one.problem.device_index(name)
                self.off[of_type, at] = off_of(one.problem, p)
                if one.problem.evidence:
                    self.priced[of_type, at] = priced_on(one.problem, p)


def _sizes_of(model: str, classes: Sequence[Class], at: int, asked: Asked) -> tuple[int, ...]:
    """The sizes of batches that a model takes: one alone, where its file fixes it."""
    served = Served(model, batch_sizes=BATCHES, dynamic_batching=DynamicBatching(BATCHES[-1]))
    try:
        for one in classes:
            if one.model == at:
                batch_dims(served, dict(one.variant), shaped=asked.shaped)
    except WorkloadError:
        return (1,)
    return BATCHES


def priced_on(problem: Problem, p: int) -> Priced:
    """Return what the times of a problem's device `p` rest on.

    A float model is priced as if it were in int8 where that is asked for by ``execute``, and on
    devices that have figures for int8 alone.
    """
    evidence, model = problem.evidence[p], problem.model
    as_if = problem.devices[p] in problem.executed
    precision = evidence.precision
    if model is not None and precision == "int8":
        as_if = not is_quantized(model.graph)
    elif model is not None and precision and problem.platform is not None:
        # Figures of one precision may be derived from those of another.
        spec = problem.platform.devices[problem.devices[p]]
        precision = executed_dtype(spec, graph_work(model.graph))
    return Priced(evidence, as_if, precision)
