"""``hetsim recommend``: the cheapest platform for a model or a workload, and the best placement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetsim.cli.commands import Command
from hetsim.cli.files import check_targets
from hetsim.cli.invocation import current
from hetsim.cli.load import check_form, located_errors, options_of, workload_of
from hetsim.cli.options.common import force_option, report_option, verb_options, wide_option
from hetsim.cli.options.load import (
    batching_option,
    money_options,
    rate_option,
    slo_option,
    speedup_option,
    workload_option,
)
from hetsim.cli.options.question import model_options, platform_options, several_strategies
from hetsim.cli.reports import report_of_placement, report_of_recommendation
from hetsim.cli.under_load import as_supposed_and_as_is, asked_of, settings, with_options
from hetsim.core.text import to_json
from hetsim.errors import UsageError
from hetsim.reporting.output import check_file, write_file, write_folder

if TYPE_CHECKING:
    from hetsim.cli.load import LoadOptions
    from hetsim.provisioning.platforms.answer import Recommendation
    from hetsim.provisioning.platforms.question import Aim
    from hetsim.workload.deployment import DynamicBatching, Routing
    from hetsim.workload.workload import Workload

BUY = "hetsim recommend MODEL --rate RATE"
SEARCH = "hetsim recommend --workload FILE"
PLACE = "hetsim recommend --workload FILE --platform NAME"
VERIFY = "hetsim recommend --verify FILE"

FORMS = {
    **dict.fromkeys(("rate", "slos", "dims", "shapes", "inputs"), (BUY,)),
    **dict.fromkeys(("canonical", "extensions", "frozen", "execute"), (BUY, PLACE)),
    **dict.fromkeys(
        ("runtime", "changes", "without", "strategies", "settings", "affinity", "placements",
         "batchings", "routing", "profiles", "measured"),
        (PLACE,),
    ),
    **dict.fromkeys(("aim", "survive", "demand", "certificate_file"), (SEARCH,)),
    **dict.fromkeys(
        ("catalog", "max_devices", "prices", "tariff", "lifetime", "draws"), (BUY, SEARCH)
    ),
    **dict.fromkeys(("workload", "speedup"), (SEARCH, PLACE)),
    **dict.fromkeys(
        ("contention", "cost", "pessimistic", "most_requests", "out", "report", "force"),
        (BUY, SEARCH, PLACE),
    ),
    "wide": (BUY, SEARCH),
    "events": (VERIFY,),
}  # fmt: skip
"""Forms of the verb that accept each option."""


@click.command(
    cls=Command,
    rare="what-if dim strategy batching",
    examples=(
        ("hetsim recommend zoo:resnet50 --rate 500/s --slo p99=50ms",
         "What should I buy or rent for this rate?"),
        ("hetsim recommend --workload workload.yaml --catalog rock-5b,jetson-orin-nano",
         "How many of which board serve several models at the least cost?"),
        ("hetsim recommend --workload workload.yaml --platform rock-5b",
         "Which model should run on which device of one platform?"),
    ),
)  # fmt: skip
@click.argument("source", metavar="[MODEL]", required=False)
@workload_option
@click.option(
    "--verify",
    metavar="FILE",
    help="Check the certificate of a recommendation, with exit code 5 where it does not hold.",
)
@rate_option
@slo_option
@click.option(
    "--catalog",
    metavar="FILE|NAME,...",
    help="Hardware on offer: a YAML file, or names of boards and devices.  [default for "
    "MODEL: all with a price in hetsim's catalog]",
)
@click.option(
    "--max-devices",
    type=click.IntRange(min=1, max=1024),
    help="Most devices of a platform, or most boards and machines for MODEL; hosts not counted.  "
    "[default: 8; for MODEL 64]",
)
@click.option(
    "--objective",
    "aim",
    type=click.Choice(["cost", "energy", "devices"]),
    default="cost",
    show_default=True,
    help="Minimize US dollars an hour, watts with all devices busy, or the number of devices.",
)
@click.option(
    "--survive",
    type=click.IntRange(min=1, max=4),
    metavar="N",
    help="Meet every objective with any N devices lost, too.",
)
@speedup_option
@money_options
@platform_options
@model_options
@several_strategies(
    "Strategy that splits a model over devices; repeatable.  [default: heft, pipeline]"
)
@batching_option
@click.option(
    "--routing",
    type=click.Choice(["round_robin", "shortest_queue", "least_finish"]),
    help="Policy that assigns requests to the replicas of a model.  [default: the better of the "
    "last two]",
)
@click.option(
    "--placements",
    type=click.IntRange(min=1),
    help="Number of placements that are simulated, for each batching.  [default: 4]",
)
@click.option(
    "--requests",
    "most_requests",
    type=click.IntRange(min=1),
    help="Most requests of a simulation at random arrivals; with fewer it may end undecided.  "
    "[default: 262144; with --platform 1048576 at most]",
)
@click.option(
    "--samples",
    "draws",
    type=click.IntRange(min=0, max=100_000),
    help="Monte Carlo samples of the cost model's errors, for the answer and those near it; 0: "
    "none.  [default: up to 30, for the answer]",
)
@click.option(
    "--demand",
    metavar="FACTOR,...",
    help="Uncertain demand as factors of the rates: 0.8,1,1.3 (weights 30, 40, 30), or "
    "0.8:0.2,1:0.5,1.3:0.3.",
)
@click.option(
    "--certificate",
    "certificate_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the proof of the answer, for --verify.",
)
@click.option(
    "--events",
    type=click.IntRange(min=1),
    help="Most task events that --verify simulates.  [default: 100000000]",
)
@click.option(
    "-o",
    "--out",
    "out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Write platform.yaml, deployment.yaml and result.json to a new folder; with --platform, "
    "the best placement to a deployment file.",
)
@report_option
@force_option("Let --certificate, --out and --report replace existing files.")
@wide_option
@verb_options
def recommend(source: str | None, **given: Any) -> None:
    """Find the cheapest hardware that meets every latency objective.

    For MODEL at --rate, or for the models of --workload. With --platform, the answer is the best
    placement of the workload's models on its devices. Cheaper hardware is excluded by a lower
    bound or by simulation; what neither decides is listed as undecided.
    """
    form = BUY
    if given["verify"] is not None:
        form = VERIFY
    elif current().platform is not None:
        form = PLACE
    elif given["workload"] is not None:
        form = SEARCH
    if source is not None and form != BUY:
        hint = f"leave {source} out"
        if form == PLACE and given["workload"] is None:
            hint = f"give --catalog {current().platform} in place of --platform"
        raise UsageError(f"MODEL belongs to '{BUY}', not to '{form}'", hint=hint)
    check_form(form, FORMS)
    answer: Mapping[str, Callable[..., None]] = {
        BUY: _buy, SEARCH: _search, PLACE: _place, VERIFY: _verify
    }  # fmt: skip
    answer[form](options_of(batching=None), **given)


def _verify(load: LoadOptions, *, verify: str, events: int | None, **_: object) -> None:
    """Check a certificate, and print the result."""
    from dataclasses import asdict

    from hetsim.provisioning.platforms.verification import BUDGET
    from hetsim.provisioning.platforms.verification import verify as checked

    invocation = current()
    with invocation.progress("checking the certificate"):
        held = checked(verify, budget=BUDGET if events is None else events)
    if invocation.as_json:
        invocation.show_json({"schema": "hetsim-verified/1", **asdict(held)})
    else:
        for line in held.report().splitlines():
            invocation.say(line)


def _search(
    load: LoadOptions,
    *,
    catalog: str | None,
    max_devices: int | None,
    aim: Aim,
    most_requests: int | None,
    draws: int | None,
    demand: str | None,
    certificate_file: Path | None,
    out: Path | None,
    wide: bool,
    **_: object,
) -> None:
    """Find the cheapest platform of a catalog for a workload."""
    from hetsim.hardware.files.inventory import load_catalog
    from hetsim.provisioning.platforms.catalog_search import MAX_DEVICES, recommended
    from hetsim.provisioning.platforms.certificate import certificate, digests_of
    from hetsim.provisioning.platforms.priced import with_listed_prices
    from hetsim.provisioning.platforms.robustness import AS_SAID, demand_of_text
    from hetsim.provisioning.platforms.search import BUDGET
    from hetsim.workload.files.reader import load_workload

    invocation = current()
    force = invocation.force
    if certificate_file is not None:
        check_file(certificate_file, force=force, option="--certificate")
        if load.speedup is not None:
            raise UsageError(
                "--certificate cannot go with --speedup", hint="write the rates in the workload"
            )
    check_targets(out)
    factors = AS_SAID if demand is None else demand_of_text(demand)
    assert load.workload is not None
    as_said = load_workload(load.workload)
    comes = as_said if load.speedup is None else as_said.faster(load.speedup)
    if catalog is None:
        raise UsageError(f"'{SEARCH}' needs --catalog", hint="give a YAML file, or names of boards")
    on_offer, terms = with_listed_prices(load_catalog(catalog), load.terms, aim)
    with invocation.progress("searching for the cheapest platform"):
        found = recommended(
            comes,
            on_offer,
            aim=aim,
            max_devices=max_devices or MAX_DEVICES,
            terms=terms,
            asked=settings(),
            budget=most_requests or BUDGET,
            samples=draws,
            demand=factors,
            losses=load.survive or 0,
        )
    if certificate_file is not None:
        files = {**load.files, **({"catalog": catalog} if on_offer.sha256 else {})}
        digests = digests_of(files, found.found.question.models)
        text = certificate(found.found, comes, digests)
        write_file(certificate_file, text, force=force, option="--certificate")
        invocation.note(f"wrote {certificate_file}")
    _answer(found, as_said, speedup=load.speedup, out=out, wide=wide)


def _answer(
    found: Recommendation,
    comes: Workload,
    *,
    speedup: float | None = None,
    out: Path | None,
    wide: bool,
) -> None:
    """Print a recommendation, and write its folder and page."""
    from hetsim.reporting.tables.recommendation import recommendation_record, recommendation_report

    record = recommendation_record(found)
    if out is not None:
        _leave(record, out, force=current().force)
    report_of_recommendation(found, comes, record, speedup=speedup, out=out)
    current().answer(lambda: record, lambda: recommendation_report(found, wide=wide))
    found.require()


def _leave(record: Mapping[str, Any], out: Path, *, force: bool) -> None:
    """Write the folder with the platform and the deployment, which ``simulate`` reads."""
    import yaml

    made = {"result.json": to_json(record)}
    if record["answer"] is not None:
        for part in ("platform", "deployment"):
            made[f"{part}.yaml"] = yaml.safe_dump(
                record["answer"][part], sort_keys=False, width=100, allow_unicode=True
            )
    write_folder(out, made, force=force)
    current().note(f"wrote {', '.join(made)} to {out}")


def _place(
    load: LoadOptions,
    *,
    strategies: tuple[str, ...],
    batchings: tuple[DynamicBatching, ...],
    routing: Routing | None,
    placements: int | None,
    most_requests: int | None,
    out: Path | None,
    **_: object,
) -> None:
    """Find the best placement of a workload's models on the devices of one platform."""
    from hetsim.provisioning.instances.candidates import ALONE, MOST, SPLITS
    from hetsim.provisioning.instances.place import place
    from hetsim.reporting.tables.placement import best_sentence, place_record, place_report
    from hetsim.workload.deployment import Deployment, Instances, Served
    from hetsim.workload.files.reader import deployment_yaml

    invocation = current()
    if load.workload is None:
        raise UsageError(f"'{PLACE}' needs --workload", hint="give --workload FILE")
    if out is not None:
        check_file(out, force=invocation.force, option="--out")
    check_targets()
    load, hardware, asked = asked_of(load)
    comes = workload_of(load)
    splits = tuple(dict.fromkeys(strategies)) or SPLITS
    planners = tuple(Instances(strategy=name) for name in splits)
    named = Deployment((Served(comes.streams[0].model, ALONE, instances=planners),))
    seek = partial(
        place,
        comes,
        settings=with_options(asked, (named,)),
        batchings=batchings,
        strategies=splits,
        routing=routing,
        most=placements or MOST,
        most_requests=most_requests,
    )
    told = located_errors(load, comes, named)
    with invocation.progress("searching for the best placement"), told:
        found, was = as_supposed_and_as_is(seek, hardware)
    record = place_record(found)
    if was is not None:
        record["as_it_is"] = place_record(was)
    invocation.answer(lambda: record, lambda: place_report(found))
    if was is not None and not invocation.as_json:
        invocation.say(f"As it is: {best_sentence(was)}")
    report_of_placement(found, load, record, out=out)
    if out is not None and found.rows:
        about = f"{' '.join(invocation.command)}\n{best_sentence(found)}"
        write_file(
            out,
            deployment_yaml(found.deployment, out.parent, about),
            force=invocation.force,
            option="--out",
        )
        invocation.note(f"wrote the best placement to {out}; hetsim simulate --deployment reads it")
    found.require()


def _buy(
    load: LoadOptions,
    *,
    catalog: str | None,
    max_devices: int | None,
    most_requests: int | None,
    draws: int | None,
    out: Path | None,
    wide: bool,
    **_: object,
) -> None:
    """Find the cheapest hardware to buy or rent for one model at a rate."""
    from hetsim.provisioning.platforms.purchase import MAX_DEVICES, REQUESTS, purchased

    invocation = current()
    if load.source is None:
        raise UsageError("no model is given", hint=f"write '{BUY}' or '{SEARCH}'")
    if load.rate is None or not load.slos:
        lacks = "--rate" if load.rate is None else "--slo"
        raise UsageError(f"'{BUY}' needs {lacks}", hint="give e.g. --rate 500/s --slo p99=50ms")
    check_targets(out)
    with invocation.progress("searching for the cheapest hardware"):
        found = purchased(
            load.source,
            rate_per_s=load.rate,
            slos=load.slos,
            catalog=catalog,
            dims=invocation.dims,
            prices=load.terms,
            asked=settings(),
            max_devices=max_devices or MAX_DEVICES,
            budget=most_requests or REQUESTS,
            samples=draws,
        )
    _answer(found, found.workload, out=out, wide=wide)
