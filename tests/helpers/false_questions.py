"""Questions that are not what was asked; see ``falsified``."""

from __future__ import annotations

import numpy as np

from certificate_parts import (
    Json,
    bounds_by,
    counted,
    last,
    one_of,
    packed,
    played,
    takes,
    unpacked,
)

MISCOUNTED = (
    r"are late|may be|all that it must be|earns|less than 1 of|no whole number|no request"
    r"|do not say that this rate misses|arrivals come at"
)


def a_kind_costs_other_than_its_price(given: Json, rng: np.random.Generator) -> str | None:
    kind = one_of(given["question"]["kinds"], rng)
    kind["cost"] += int(rng.choice([-1, 1]))
    return "the price makes"


def a_price_of_what_is_recommended_is_another(given: Json, rng: np.random.Generator) -> str | None:
    if not given["answer"]:
        return None
    kinds = [kind for kind, n in zip(given["question"]["kinds"], given["answer"]["counts"],
                                     strict=True) if n]  # fmt: skip
    kind = one_of(kinds, rng)
    kind["price"] = {"usd_per_hour": "0.001"}
    kind["cost"] = 1_000_000
    return "its kinds cost|comes before|nothing is said"


def arrivals_are_thinned(given: Json, rng: np.random.Generator) -> str | None:
    if not any(row[3] > 3 for run in played(given) for row in run["judged"]):
        return None
    arrivals = given["arrivals"]
    time, ask = unpacked(arrivals["time_s"], "<f8"), unpacked(arrivals["ask"], "<u2")
    kept = rng.random(len(time)) < 0.7
    arrivals |= {
        "requests": int(kept.sum()),
        "time_s": packed(time[kept], "<f8"),
        "ask": packed(ask[kept], "<u2"),
    }
    for run in played(given):
        run["played"] = int(kept.sum())
        for row in run["judged"]:
            row[2] = int(kept.sum())
    for bound in bounds_by(given, "window"):
        bound["to"] = min(bound["to"], int(kept.sum()) - 1)
    return MISCOUNTED


def arrivals_come_slower(given: Json, rng: np.random.Generator) -> str | None:
    if not any(row[3] > 3 for run in played(given) for row in run["judged"]):
        return None
    time = unpacked(given["arrivals"]["time_s"], "<f8")
    given["arrivals"]["time_s"] = packed(time * float(rng.uniform(2, 5)), "<f8")
    return MISCOUNTED


def an_objective_is_laxer(given: Json, rng: np.random.Generator) -> str | None:
    streams = [(s, row[1]) for run in played(given) for row in run["judged"]
               if row[3] > 3 and (s := row[0]) is not None]  # fmt: skip
    if not streams:
        return None
    stream, slo = one_of(streams, rng)
    given["question"]["streams"][stream]["slos"][slo][1] *= 1e6
    return MISCOUNTED


def a_kind_is_not_to_be_had(given: Json, rng: np.random.Generator) -> str | None:
    found = last(given)
    if not found:
        return None
    at = one_of([at for at, n in enumerate(found["counts"]) if n], rng)
    given["question"]["kinds"][at]["most"] = found["counts"][at] - 1
    return "more than can be had"


def a_kind_is_dropped(given: Json, rng: np.random.Generator) -> str | None:
    if not given["runs"] and not given["question"]["limits"]:
        # That none meets, none of fewer kinds does either.
        return None
    given["question"]["kinds"].pop(int(rng.integers(len(given["question"]["kinds"]))))
    return r"entries in the place of|at least 1 item|/ways/\d+/.*: no whole number"


def fewer_devices_may_be_had(given: Json, rng: np.random.Generator) -> str | None:
    found = last(given)
    if not found:
        return None
    kinds = given["question"]["kinds"]
    many = sum(kind["counts"] * n for kind, n in zip(kinds, found["counts"], strict=True))
    if not many:
        return None
    given["question"]["max_devices"] = many - 1
    return "more than can be had"


def a_device_runs_more_at_once(given: Json, rng: np.random.Generator) -> str | None:
    bound = one_of(bounds_by(given, "rate", "window", "pooled"), rng)
    ways = [] if bound is None else counted(given, bound)
    if not ways:
        return None
    for device in given["question"]["devices"]:
        device["streams"] *= 10
    if not any(
        takes(given, bound, way) < bound["worth"][way["class"]] * way["batch"] * (1 - 1e-9)
        for way in ways
    ):
        return None
    return "earns"


def verdicts_may_be_wrong_less_often(given: Json, rng: np.random.Generator) -> str | None:
    if given["question"]["demand"] == "trace":
        return None
    if not any(row[5] for run in played(given) for row in run["judged"] if row[4] != "undecided"):
        return None
    given["question"]["error"] = 1e-9
    return "may be wrong by"


def more_may_be_lost(given: Json, rng: np.random.Generator) -> str | None:
    if not given["question"].get("losses") or not given["answer"]:
        return None
    given["question"]["losses"] += 1
    return "without devices|a bound excludes what meets"


def no_policy_is_stated(given: Json, rng: np.random.Generator) -> str | None:
    given["question"]["policies"] = []
    return "at least 1 item"
