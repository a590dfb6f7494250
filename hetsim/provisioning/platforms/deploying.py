"""The platform and the deployment of a vector, as files say them and as records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hetsim.hardware.price import Price
from hetsim.hardware.spec import Platform
from hetsim.provisioning.platforms.composing import Pieces, composed, description
from hetsim.provisioning.platforms.policies import Placed, Policy
from hetsim.provisioning.platforms.question import BATCHES, Counts, Place, Question
from hetsim.workload.deployment import Deployment, DynamicBatching, Instances, Served

NAME = "recommended"


def platform_of(question: Question, pieces: Sequence[Pieces], counts: Counts) -> Platform:
    """Return the platform of a vector; where costs are asked for, with its price."""
    platform = composed(pieces, counts, NAME)
    return replace(platform, price=_price(question, counts))


def platform_file(question: Question, pieces: Sequence[Pieces], counts: Counts) -> dict[str, Any]:
    """Return what the file of that platform says."""
    found = description(pieces, counts, NAME)
    price = _price(question, counts)
    if price is not None:
        found["price"] = {
            "usd_per_hour": price.usd_per_hour,
            "of": price.of,
            "source": price.source,
        }
    return found


def _price(question: Question, counts: Counts) -> Price | None:
    """What all of it costs an hour, with the electricity that it takes at most."""
    if question.aim != "cost":
        return None
    dates = [
        kind.price.of
        for count, kind in zip(counts, question.kinds, strict=True)
        if count and kind.price is not None
    ]
    source = f"{told(question, counts)}: hours of what is bought, and its electricity where busy"
    return Price(usd_per_hour=question.amount(counts), of=max(dates) or "2000", source=source)


def told(question: Question, counts: Counts) -> str:
    """Return a vector in words: ``2 l4, 1 epyc``."""
    parts = (f"{count} {name}" for name, count in question.named(counts).items())
    return ", ".join(parts) or "nothing"


def deployment_of(
    question: Question, pieces: Sequence[Pieces], where: Placed, policy: Policy
) -> Deployment:
    """Return the deployment that a policy comes to on a vector."""
    models = []
    for model, mine in enumerate(where.instances):
        sizes = _sizes(question, where, model, policy)
        instances = []
        for one in mine:
            names = tuple(_name(pieces, where.places[at]) for at in one.devices)
            strategy = None if one.split < 0 else question.splits[one.split].strategy
            types = [where.places[at].of_type for at in one.devices]
            most = policy.limit([question.types[of_type].streams for of_type in types]) or None
            instances.append(Instances(1, names, strategy, max_in_flight=most))
        models.append(
            Served(
                question.models[model],
                strategy="single",
                batch_sizes=sizes if len(sizes) > 1 else (),
                instances=tuple(instances),
                routing=policy.routing,
                dynamic_batching=DynamicBatching(sizes[-1]) if len(sizes) > 1 else None,
            )
        )
    return Deployment(tuple(models))


def _name(pieces: Sequence[Pieces], place: Place) -> str:
    """What a device is called on the platform."""
    piece = pieces[place.kind]
    return piece.names(place.unit)[list(piece.devices)[place.slot]]


def _sizes(question: Question, where: Placed, model: int, policy: Policy) -> tuple[int, ...]:
    """The sizes of batches of a model: those that its file takes, up to the policy's."""
    of_class = question.classes_of(model)[0]
    has = [way.batch for way in where.ways(question, where.instances[model][0], of_class)]
    return tuple(size for size in BATCHES if size in has and size <= policy.max_batch)


def deployment_file(deployment: Deployment) -> dict[str, Any]:
    """Return what the file of a deployment says; paths of models are whole."""
    models = []
    for served in deployment.models:
        model = served.model
        if not model.startswith("zoo:"):
            model = str(Path(model).resolve())
        one: dict[str, Any] = {
            "model": model,
            "strategy": served.strategy,
            "routing": served.routing,
            "instances": [
                {
                    "devices": list(entry.devices),
                    **({"strategy": entry.strategy} if entry.strategy else {}),
                    **({"max_in_flight": entry.max_in_flight} if entry.max_in_flight else {}),
                }
                for entry in served.instances
            ],
        }
        if served.dynamic_batching is not None:
            one["batch_sizes"] = list(served.batch_sizes)
            one["dynamic_batching"] = {"max_batch_size": served.dynamic_batching.max_batch_size}
        models.append(one)
    return {"models": models}
