"""Verb ``recommend``: for a workload on a catalog, or for one model at a rate."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from hetsim.analysis.confidence import MOST_DRAWS
from hetsim.core import checks
from hetsim.errors import UsageError
from hetsim.hardware.files.inventory import MOST, Catalog, load_catalog
from hetsim.hardware.price import Price, parse_price
from hetsim.provisioning.platforms import purchase
from hetsim.provisioning.platforms.answer import Recommendation
from hetsim.provisioning.platforms.catalog_search import MAX_DEVICES, recommended
from hetsim.provisioning.platforms.priced import with_listed_prices
from hetsim.provisioning.platforms.question import AIMS, Aim
from hetsim.provisioning.platforms.robustness import AS_SAID, demand_of_text
from hetsim.provisioning.platforms.search import BUDGET
from hetsim.simulation.service.cost import ServicePrices
from hetsim.simulation.service.resolution import ModelOptions
from hetsim.workload.workload import Slo, Workload, parse_slo

MOST_LOSSES = 4
"""Maximum number of devices lost at once: each such set of a platform is simulated."""


@checks.takes(
    workload=checks.instance("hetsim.workload.workload:Workload"),
    catalog=checks.either(checks.instance("hetsim.hardware.files.inventory:Catalog"), checks.path),
    model=checks.path,
    rate_per_s=checks.number(above=0),
    slos=checks.sequence(
        checks.either(checks.instance("hetsim.workload.workload:Slo"), checks.text)
    ),
    objective=checks.one_of(*AIMS),
    max_devices=checks.whole(1, MOST),
    most_requests=checks.whole(1),
    samples=checks.whole(0, MOST_DRAWS),
    prices=checks.mapping(
        checks.text, checks.either(checks.instance("hetsim.hardware.price:Price"), checks.text)
    ),
    tariff_usd_per_kwh=checks.number(least=0),
    depreciation_years=checks.number(above=0),
    demand=checks.text,
    losses=checks.whole(0, MOST_LOSSES),
    time_limit_s=checks.number(above=0),
)
def recommend(
    workload: Workload | None = None,
    catalog: Catalog | str | os.PathLike[str] | None = None,
    *,
    model: str | os.PathLike[str] | None = None,
    rate_per_s: float | None = None,
    slos: Sequence[str | Slo] | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    execute: Mapping[str, str] | None = None,
    objective: Aim = "cost",
    max_devices: int | None = None,
    prices: Mapping[str, Price | str] | None = None,
    tariff_usd_per_kwh: float | None = None,
    depreciation_years: float | None = None,
    most_requests: int | None = None,
    samples: int | None = None,
    demand: str | None = None,
    losses: int = 0,
    time_limit_s: float | None = None,
) -> Recommendation:
    """Return the cheapest platform that meets every objective, and what excludes the rest.

    For one `model` at `rate_per_s`: what to buy or rent from the priced catalog, see
    ``hetsim.provisioning.platforms.purchase.purchased``. For a `workload`: from a `catalog`.

    Platforms are *vectors*: numbers of each kind of the catalog, ordered by cost, then by fewer
    devices. Vectors before the answer are excluded by a bound that holds for every policy over the
    plans considered: each model whole on one device, and split over sets of devices that sustain
    more than these do alone, in every batch size. Or they were simulated: each of a few stated
    policies was played on the same requests, and misses; or they are named as undecided. Requests
    of traces and even streams are given, and counted; for random ones the verdicts are for the long
    run, all together right in 95 of 100 cases.

    Parameters
    ----------
    workload : Workload, optional
        Workload with objectives. Requests arrive at rates or by a trace; no clients, no failures.
    catalog : Catalog, or path or names, optional
        Available kinds, as in ``load_catalog``. For one model, comma-separated names of priced
        hardware and rented machines; absent: all of these.
    model : path, optional
        Instead of `workload`: an ONNX file, or ``zoo:NAME``.
    rate_per_s : float, optional
        For one model: mean requests per second of a Poisson process.
    slos : sequence of str or Slo
        For one model: its objectives; absent: ``p99=50ms``.
    dims, shapes, execute : mapping, optional
        For one model: open dimensions, whole shapes of inputs, and its precision by device or
        ``*``, as in ``load_model`` and ``Problem.of``.
    objective : "cost", "energy" or "devices"
        US dollars per hour; watts at full load; number of devices. For one model the cost.
    max_devices : int, optional
        Maximum number of devices without hosts. Absent: 8 for a workload, 64 for one model.
    prices : mapping of str to Price or str, optional
        By kind or pattern of kinds, e.g. ``{"rock-5b": "150/3y"}``; overrides prices in files.
    tariff_usd_per_kwh, depreciation_years : float, optional
        For purchased hardware; 0.127 and 3 for one model if absent.
    most_requests : int, optional
        Random requests after which a run ends undecided. Absent: 2**18 for a workload, 2**16 for
        one model.
    samples : int, optional
        Monte Carlo samples of cost-model error in which the answer and its neighbours are evaluated
        again, see ``robustness``; 0: none. Absent: only the answer, in up to 30 of them.
    demand : str, optional
        Factors on the arrival rate, ``0.8,1,1.3`` or ``0.8:0.2,1:0.5,1.3:0.3``, for the same.
    losses : int
        Number of devices that may be lost with all objectives still met, as in ``survive``; losing
        the last instance of a model counts as a miss, without replanning.
    time_limit_s : float, optional
        For one model: CPU seconds of the process; absent: 45.

    Raises
    ------
    UsageError
        If a price is unknown, or for closed loops, failures or priorities.
    WorkloadError, PlatformError
        If an input file cannot be used.

    Complexity: the plans of each model on each kind, and some runs of the workload.
    """
    terms = ServicePrices(
        {
            name: parse_price(price) if isinstance(price, str) else price
            for name, price in (prices or {}).items()
        },
        tariff_usd_per_kwh,
        depreciation_years,
    )
    if (workload is None) == (model is None):
        raise UsageError(
            "recommend takes a workload or a model",
            hint="give recommend(workload, catalog), or model= and rate_per_s=",
        )
    if workload is None:
        assert model is not None
        if rate_per_s is None:
            raise UsageError("no rate is given", hint="give rate_per_s=500, say")
        if objective != "cost" or demand is not None or losses:
            raise UsageError(
                "objective, demand and losses are of a workload",
                hint="give a workload and a catalog for these",
            )
        return purchase.purchased(
            os.fspath(model),
            rate_per_s=rate_per_s,
            slos=[
                parse_slo(one) if isinstance(one, str) else one
                for one in (("p99=50ms",) if slos is None else slos)
            ],
            catalog=catalog,
            dims=dims,
            prices=terms,
            asked=ModelOptions(shapes=dict(shapes or {}), execute=dict(execute or {})),
            max_devices=purchase.MAX_DEVICES if max_devices is None else max_devices,
            budget=purchase.REQUESTS if most_requests is None else most_requests,
            samples=samples,
            time_limit_s=purchase.TIME_LIMIT_S if time_limit_s is None else time_limit_s,
        )
    of_model = (rate_per_s, slos, dims, shapes, execute, time_limit_s)
    if catalog is None or any(one is not None for one in of_model):
        raise UsageError(
            "a workload goes with a catalog, and has its own rates, objectives and shapes",
            hint="give catalog=, without rate_per_s=, slos=, dims=, shapes=, execute= and "
            "time_limit_s=",
        )
    on_offer = catalog if isinstance(catalog, Catalog) else load_catalog(catalog)
    on_offer, terms = with_listed_prices(on_offer, terms, objective)
    return recommended(
        workload,
        on_offer,
        aim=objective,
        max_devices=MAX_DEVICES if max_devices is None else max_devices,
        terms=terms,
        budget=BUDGET if most_requests is None else most_requests,
        samples=samples,
        demand=AS_SAID if demand is None else demand_of_text(demand),
        losses=losses,
    )
