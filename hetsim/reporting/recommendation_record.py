"""The cheapest platform as a record."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Any

from hetsim.problem.evidence import Z80
from hetsim.problem.record import weakest_of
from hetsim.provisioning.platforms.answer import Recommendation, devices_of
from hetsim.provisioning.platforms.pieces import deployment_file, platform_file
from hetsim.provisioning.platforms.question import UNITS
from hetsim.reporting.tables.recommendation import device_name, sentence
from hetsim.reporting.tables.service_record import service_record
from hetsim.reporting.tables.surviving import surviving_record
from hetsim.reporting.tables.workload import objectives_record
from hetsim.simulation.service.resolving import Resolved


def recommendation_record(found: Recommendation) -> dict[str, Any]:
    """Return the record for ``to_json``."""
    question = found.found.question
    best, binding = found.best, found.binding
    answer = found.found.answer
    return {
        "schema": "hetsim-recommendation/1",
        "verdict": {"say": sentence(found)},
        "objective": question.aim,
        "unit": UNITS[question.aim],
        "max_devices": question.max_devices,
        "losses": question.losses,
        "seed": found.workload.seed,
        "kinds": [
            {"name": kind.name, "cost": kind.cost, "most": kind.most} for kind in question.kinds
        ],
        "objectives": objectives_record(question.streams),
        "vectors": found.vectors,
        "weakest": None if best is None else _weakest(best.service.resolved),
        "priced": [
            {
                "model": question.models[of_model],
                "device": device_name(question, of_type),
                "precision": one.precision or None,
                "as_if": one.as_if,
                "status": one.evidence.status,
                "within_80": exp(Z80 * one.evidence.sd),
            }
            for (of_type, of_model), one in sorted(question.priced.items())
        ],
        "splits": [
            {
                "model": question.models[one.model],
                "strategy": one.strategy,
                "devices": list(devices_of(question, one)),
            }
            for one in question.splits
        ],
        "policies": [str(policy) for policy in found.policies],
        "answer": None
        if best is None or answer is None
        else {
            "counts": dict(best.counts),
            "cost": best.cost,
            "policy": str(best.policy),
            "platform": platform_file(question, found.pieces, answer.counts),
            "deployment": deployment_file(best.deployment),
            "service": service_record(best.service),
            "survived": None if best.survived is None else surviving_record(best.survived),
        },
        "runner_up": None
        if found.runner_up is None
        else {"counts": dict(found.runner_up), "cost": found.runner_up_cost},
        "undecided": [dict(counts) for counts in found.undecided],
        "excuses": [
            {
                "because": one.what,
                "vectors": one.vectors,
                "proved": one.proved,
                "counts": None if one.counts is None else dict(one.counts),
            }
            for one in found.excuses
        ],
        "dearer": found.dearer,
        "impossible": found.impossible,
        "doubt": None
        if found.doubt is None
        else {
            "draws": found.doubt.draws,
            "demand": [list(one) for one in found.doubt.demand],
            "near": found.doubt.near,
            "meets": found.doubt.meets,
            "right": found.doubt.right if found.doubt.near else None,
            "none": found.doubt.none,
            "answer": found.doubt.answer,
            "least_regret": found.doubt.candidates.index(found.doubt.least_regret),
            "candidates": [
                {
                    "counts": dict(one.counts),
                    "cost": one.cost,
                    "meets": one.meets,
                    "cheapest": one.cheapest,
                    "regret": one.regret,
                }
                for one in found.doubt.candidates
            ],
        },
        "binding": None
        if binding is None
        else {
            "what": binding.what,
            "needs": binding.needs,
            "has": binding.has,
            "gap": binding.gap,
            "unit": binding.unit,
            "counts": dict(binding.counts),
            "proved": binding.proved,
            "levers": [
                {"sort": lever.sort, "what": lever.what, "to": lever.to, "enough": lever.enough}
                for lever in binding.levers
            ],
        },
    }


def _weakest(resolved: Sequence[Resolved]) -> str | None:
    """The weakest status of what the answer's times rest on; None of arrays."""
    devices = [each for one in resolved for each in one.problem.evidence]
    links = [each for one in resolved for each in one.problem.link_evidence]
    return weakest_of(devices, links) if devices or links else None
