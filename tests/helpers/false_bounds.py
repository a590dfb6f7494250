"""Bounds, ways and templates that say what is not so; see ``falsified``."""

from __future__ import annotations

import numpy as np

from certificate_parts import Json, a_way, bounds_by, by_bound, counted, one_of, takes, types_of


def bounds_are_hidden(given: Json, rng: np.random.Generator) -> str | None:
    # The empty platform, at least, is excluded by all of them and by nothing else.
    if not given["bounds"]:
        return None
    given["bounds"] = []
    # Nor are placements, where each was tried that none excludes.
    hidden = "nothing is said of|was not tried with models on devices"
    return "/bound: no whole number" if by_bound(given) else hidden


def the_least_of_a_bound_is_raised(given: Json, rng: np.random.Generator) -> str | None:
    bound = one_of(bounds_by(given, "rate", "window", "needs"), rng)
    if bound is None:
        return None
    bound["least"] = bound["least"] * float(rng.uniform(1.001, 3)) + 1e-3
    return "all that it must be"


def a_pooled_server_is_quicker(given: Json, rng: np.random.Generator) -> str | None:
    bound = one_of(bounds_by(given, "pooled"), rng)
    if bound is None:
        return None
    bound["least"] *= float(rng.uniform(20, 100))
    return "late at that rate, and|do not say that this rate misses"


def a_device_has_less_capacity(given: Json, rng: np.random.Generator) -> str | None:
    bound = one_of(bounds_by(given, "needs"), rng)
    if bound is None:
        return None
    devices = [at for at, capacity in enumerate(bound["capacity"]) if capacity > 0]
    if not devices:
        return None
    bound["capacity"][one_of(devices, rng)] *= float(rng.uniform(0, 0.999))
    return "less than 1 of what would do"


def what_a_way_takes_has_less_capacity(given: Json, rng: np.random.Generator) -> str | None:
    bound = one_of(bounds_by(given, "rate", "window", "pooled"), rng)
    ways = [] if bound is None else counted(given, bound)
    if not ways:
        return None
    way = one_of(ways, rng)
    earns = bound["worth"][way["class"]] * way["batch"]
    less = earns / takes(given, bound, way) * float(rng.uniform(0, 0.999))
    for q in types_of(given, way):
        bound["capacity"][q] *= less
    for kind in set(way["kinds"]):
        bound["links"][kind] = [one * less for one in bound["links"][kind]]
    return "earns"


def a_link_of_capacity_has_none(given: Json, rng: np.random.Generator) -> str | None:
    bound = one_of([b for b in bounds_by(given, "rate", "window", "pooled")
                    if any(map(any, b["links"]))], rng)  # fmt: skip
    if bound is None:
        return None
    bound["links"] = [[0.0] * len(row) for row in bound["links"]]
    short = [
        way for way in counted(given, bound)
        if takes(given, bound, way) < bound["worth"][way["class"]] * way["batch"] * (1 - 1e-9)
    ]  # fmt: skip
    return "earns" if short else None


def a_request_is_worth_more(given: Json, rng: np.random.Generator) -> str | None:
    bound = one_of(bounds_by(given, "rate", "window", "pooled"), rng)
    if bound is None or not any(bound["capacity"]):
        return None
    # Ways over several devices may take more than they must; none takes so much.
    bound["worth"] = [1e9 * one for one in bound["worth"]]
    return "earns" if counted(given, bound) else None


def a_pooled_request_is_worth_less_than_one(given: Json, rng: np.random.Generator) -> str | None:
    bound = one_of(bounds_by(given, "pooled"), rng)
    if bound is None:
        return None
    at = one_of([at for at, one in enumerate(bound["worth"]) if one >= 1], rng)
    bound["worth"][at] = float(rng.uniform(0.1, 0.99))
    return "is worth less than 1"


def a_window_is_shorter(given: Json, rng: np.random.Generator) -> str | None:
    bound = one_of([one for one in bounds_by(given, "window") if one["least"] > 0], rng)
    if bound is None:
        return None
    # So few requests that all of them may be late.
    shares = [slo[0] for stream in given["question"]["streams"] for slo in stream["slos"]]
    few = int((1 - max(shares)) * given["arrivals"]["requests"] / len(shares) / 2)
    if few < 1:
        return None
    bound["to"] = bound["from"] + int(rng.integers(0, few))
    return "all that it must be"


def a_device_is_in_a_way_twice(given: Json, rng: np.random.Generator) -> str | None:
    ways = [way for way in given["ways"] if len(way["devices"]) > 1]
    if not ways:
        return None
    devices = one_of(ways, rng)["devices"]
    devices[1][:2] = devices[0][:2]
    return "a device twice"


def a_task_is_quicker_than_least_says(given: Json, rng: np.random.Generator) -> str | None:
    task = one_of([t for one in given["templates"] for t in one["tasks"] if t[0] >= 0], rng)
    if task is None:
        return None
    task[1] *= float(rng.uniform(0.1, 0.99))
    return "at least"


def least_says_more_than_a_task_takes(given: Json, rng: np.random.Generator) -> str | None:
    if not given["templates"]:
        return None
    _, way = a_way(given, rng)
    one_of(way["devices"], rng)[2] *= float(rng.uniform(1.01, 5))
    return "at least"


def a_link_is_held_for_less_than_least_says(given: Json, rng: np.random.Generator) -> str | None:
    ways = [one["way"] for one in given["templates"] if any(given["ways"][one["way"]]["links"])]
    if not ways:
        return None
    links = given["ways"][one_of(ways, rng)]["links"]
    links[one_of([at for at, one in enumerate(links) if one], rng)] *= float(rng.uniform(1.01, 5))
    return "on link .* at least"


def least_says_what_is_slower_than_a_template(given: Json, rng: np.random.Generator) -> str | None:
    if not given["templates"]:
        return None
    template, way = a_way(given, rng)
    way["alone_s"] = sum(task[1] for task in template["tasks"]) * float(rng.uniform(1.01, 5))
    return "alone it takes|earns|nothing is said|less than 1 of"


def a_template_is_of_no_way(given: Json, rng: np.random.Generator) -> str | None:
    if not given["templates"]:
        return None
    given["templates"][0]["way"] = len(given["ways"])
    return "whole number"
