"""Certificates that claim what is not so: one change each, and what the checker must find.

Each takes a certificate of its own to change and random numbers, and returns what the reason for
its rejection must say; it raises Nothing where this certificate has nothing that it could falsify.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetsim.errors import CertificateRefuted, InvalidInput
from hetsim.provisioning.platforms.verification import verify

Json = dict[str, Any]
Falsify = Callable[[Json, np.random.Generator], str]

FALSIFIED: list[Falsify] = []

MISCOUNTED = (
    r"are late|may be|all that it must be|earns|less than 1 of|no whole number|no request"
    r"|do not say that this rate misses|arrivals come at"
)


class Nothing(Exception):
    """A certificate has nothing of the kind to falsify."""


def need(there: object) -> None:
    """Raise Nothing where what is to be falsified is not there."""
    if not there:
        raise Nothing


def falsify(one: Falsify) -> Falsify:
    FALSIFIED.append(one)
    return one


def all_rejected(text: str, path: Path, seed: int) -> None:
    """Check that a certificate is rejected however it is falsified."""
    for number, one in enumerate(FALSIFIED):
        given = json.loads(text)
        try:
            reason = one(given, np.random.default_rng([seed, number]))
        except Nothing:
            continue
        path.write_text(json.dumps(given))
        with pytest.raises((CertificateRefuted, InvalidInput)) as caught:
            verify(path)
        assert re.search(reason, str(caught.value)), (one.__name__, str(caught.value))


def packed(values: Any, kind: str) -> str:
    """Numbers as a certificate has them."""
    raw = np.asarray(values, dtype=kind).tobytes()
    return base64.b64encode(zlib.compress(raw)).decode()


def unpacked(text: str, kind: str) -> Any:
    """Numbers of a certificate."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), kind).copy()


def one_of(rows: list[Any], rng: np.random.Generator) -> Any:
    """One of some; raises Nothing where there are none."""
    need(rows)
    return rows[rng.integers(len(rows))]


def played(given: Json) -> list[Json]:
    return [run for run in given["runs"] if "none" not in run and "bound" not in run]


def by_bound(given: Json) -> list[Json]:
    """Runs that a bound excludes."""
    return [run for run in given["runs"] if "bound" in run]


def for_all(given: Json) -> list[Json]:
    """Runs of policies that place each model on all devices."""
    policies = given["question"]["policies"]
    return [run for run in played(given) if policies[run["policy"]]["placement"] == "all"]


def bounds_by(given: Json, *by: str) -> list[Json]:
    return [bound for bound in given["bounds"] if bound["by"] in by]


def last(given: Json) -> Json:
    found: Json | None = given["runner_up"] or given["answer"]
    need(found)
    return found


def called(given: Json, rng: np.random.Generator, was: str, becomes: str) -> None:
    """Call one verdict of a kind something else."""
    one_of([row for run in played(given) for row in run["judged"] if row[4] == was], rng)[4] = (
        becomes
    )


def types_of(given: Json, way: Json) -> list[int]:
    """The types of the devices of a way."""
    kinds = given["question"]["kinds"]
    return [kinds[way["kinds"][unit]]["devices"][place] for unit, place, _ in way["devices"]]


def takes(given: Json, bound: Json, way: Json) -> float:
    """What a way takes of devices and links, by the capacity of a bound."""
    devices = given["question"]["devices"]
    links = [one for kind in way["kinds"] for one in bound["links"][kind]]
    return sum(
        bound["capacity"][q] * one[2] / devices[q]["streams"]
        for q, one in zip(types_of(given, way), way["devices"], strict=True)
    ) + sum(one * seconds for one, seconds in zip(links, way["links"], strict=True))


def counted(given: Json, bound: Json) -> list[Json]:
    """The ways that a bound is about: what they serve is worth something, in time."""
    question = given["question"]
    found = []
    for way in given["ways"]:
        limits = [
            question["streams"][ask["stream"]]["slos"][bound["slo"][ask["stream"]]][1]
            for ask in question["asks"]
            if ask["class"] == way["class"] and bound["slo"][ask["stream"]] is not None
        ]
        if bound["worth"][way["class"]] > 0 and way["alone_s"] <= max(limits, default=-1):
            found.append(way)
    return found


def a_way(given: Json, rng: np.random.Generator) -> tuple[Json, Json]:
    """A template, and the way that it is of."""
    template = one_of(given["templates"], rng)
    return template, given["ways"][template["way"]]


def a_played_way(given: Json, rng: np.random.Generator) -> tuple[Json, Json, list[int]]:
    """An instance of a run, its way, and the counts that it is on."""
    rows = [
        (one, given["ways"][given["templates"][one["templates"][0][0]]["way"]], run["counts"])
        for run in played(given) for model in run["instances"] for one in model
    ]  # fmt: skip
    found: tuple[Json, Json, list[int]] = one_of(rows, rng)
    return found


def of_stated(given: Json, one: Json) -> list[int]:
    """The runs of a vector that was tried, but for those of placements one by one."""
    policies = given["question"]["policies"]
    return [
        at for at in one["runs"] if policies[given["runs"][at]["policy"]]["placement"] != "each"
    ]


@falsify
def a_vector_that_was_tried_is_hidden(given: Json, rng: np.random.Generator) -> str:
    given["tried"].remove(one_of(given["tried"], rng))
    return "nothing is said of"


@falsify
def an_undecided_vector_is_hidden(given: Json, rng: np.random.Generator) -> str:
    given["undecided"].remove(one_of(given["undecided"], rng))
    return "nothing is said of"


@falsify
def bounds_are_hidden(given: Json, rng: np.random.Generator) -> str:
    # The empty platform, at least, is excluded by all of them and by nothing else.
    need(given["bounds"])
    given["bounds"] = []
    # Nor are placements, where each was tried that none excludes.
    hidden = "nothing is said of|was not tried with models on devices"
    return "/bound: no whole number" if by_bound(given) else hidden


@falsify
def the_least_of_a_bound_is_raised(given: Json, rng: np.random.Generator) -> str:
    bound = one_of(bounds_by(given, "rate", "window", "needs"), rng)
    bound["least"] = bound["least"] * float(rng.uniform(1.001, 3)) + 1e-3
    return "all that it must be"


@falsify
def a_pooled_server_is_quicker(given: Json, rng: np.random.Generator) -> str:
    bound = one_of(bounds_by(given, "pooled"), rng)
    bound["least"] *= float(rng.uniform(20, 100))
    return "late at that rate, and|do not say that this rate misses"


@falsify
def a_device_has_less_capacity(given: Json, rng: np.random.Generator) -> str:
    bound = one_of(bounds_by(given, "needs"), rng)
    devices = [at for at, capacity in enumerate(bound["capacity"]) if capacity > 0]
    bound["capacity"][one_of(devices, rng)] *= float(rng.uniform(0, 0.999))
    return "less than 1 of what would do"


@falsify
def what_a_way_takes_has_less_capacity(given: Json, rng: np.random.Generator) -> str:
    bound = one_of(bounds_by(given, "rate", "window", "pooled"), rng)
    ways = counted(given, bound)
    way = one_of(ways, rng)
    earns = bound["worth"][way["class"]] * way["batch"]
    less = earns / takes(given, bound, way) * float(rng.uniform(0, 0.999))
    for q in types_of(given, way):
        bound["capacity"][q] *= less
    for kind in set(way["kinds"]):
        bound["links"][kind] = [one * less for one in bound["links"][kind]]
    return "earns"


@falsify
def a_link_of_capacity_has_none(given: Json, rng: np.random.Generator) -> str:
    bound = one_of([b for b in bounds_by(given, "rate", "window", "pooled")
                    if any(map(any, b["links"]))], rng)  # fmt: skip
    bound["links"] = [[0.0] * len(row) for row in bound["links"]]
    short = [
        way for way in counted(given, bound)
        if takes(given, bound, way) < bound["worth"][way["class"]] * way["batch"] * (1 - 1e-9)
    ]  # fmt: skip
    need(short)
    return "earns"


@falsify
def a_request_is_worth_more(given: Json, rng: np.random.Generator) -> str:
    bound = one_of(bounds_by(given, "rate", "window", "pooled"), rng)
    need(any(bound["capacity"]))
    # Ways over several devices may take more than they must; none takes so much.
    bound["worth"] = [1e9 * one for one in bound["worth"]]
    need(counted(given, bound))
    return "earns"


@falsify
def a_pooled_request_is_worth_less_than_one(given: Json, rng: np.random.Generator) -> str:
    bound = one_of(bounds_by(given, "pooled"), rng)
    at = one_of([at for at, one in enumerate(bound["worth"]) if one >= 1], rng)
    bound["worth"][at] = float(rng.uniform(0.1, 0.99))
    return "is worth less than 1"


@falsify
def a_window_is_shorter(given: Json, rng: np.random.Generator) -> str:
    bound = one_of([one for one in bounds_by(given, "window") if one["least"] > 0], rng)
    # So few requests that all of them may be late.
    shares = [slo[0] for stream in given["question"]["streams"] for slo in stream["slos"]]
    few = int((1 - max(shares)) * given["arrivals"]["requests"] / len(shares) / 2)
    need(few >= 1)
    bound["to"] = bound["from"] + int(rng.integers(0, few))
    return "all that it must be"


@falsify
def late_requests_are_miscounted(given: Json, rng: np.random.Generator) -> str:
    row = one_of([row for run in played(given) for row in run["judged"]], rng)
    row[3] += int(rng.integers(1, 20) * rng.choice([-1, 1]))
    return "are late|greater than or equal to 0"


@falsify
def a_miss_is_called_met(given: Json, rng: np.random.Generator) -> str:
    called(given, rng, "misses", "meets")
    return "are late: misses"


@falsify
def what_meets_is_called_a_miss(given: Json, rng: np.random.Generator) -> str:
    called(given, rng, "meets", "misses")
    return "are late: meets"


@falsify
def undecided_is_called_a_miss(given: Json, rng: np.random.Generator) -> str:
    called(given, rng, "undecided", "misses")
    return "are late: (undecided|meets)"


@falsify
def undecided_is_called_tried(given: Json, rng: np.random.Generator) -> str:
    counts = one_of(given["undecided"], rng)
    given["undecided"].remove(counts)
    runs = [at for at, run in enumerate(given["runs"]) if run["counts"] == counts]
    given["tried"].append({"counts": counts, "runs": runs})
    return "a run that is undecided|was not tried"


@falsify
def the_answer_is_one_that_misses(given: Json, rng: np.random.Generator) -> str:
    missed = [at for at, run in enumerate(given["runs"])
              if any(row[4] == "misses" for row in run.get("judged", ()))]  # fmt: skip
    need(missed and given["answer"])
    run = one_of(missed, rng)
    counts = given["runs"][run]["counts"]
    cost = sum(k["cost"] * n for k, n in zip(given["question"]["kinds"], counts, strict=True))
    without = {"without": []} if given["question"].get("losses") else {}
    given["answer"] = {"counts": counts, "cost": cost, "run": run, **without}
    return "that is misses"


@falsify
def the_answer_is_of_another_vector_s_run(given: Json, rng: np.random.Generator) -> str:
    need(given["answer"] and given["runner_up"])
    given["answer"]["run"] = given["runner_up"]["run"]
    return "a run of"


@falsify
def costs_do_not_add_up(given: Json, rng: np.random.Generator) -> str:
    need(one := given["answer"] if rng.random() < 0.5 else last(given))
    one["cost"] += int(rng.integers(1, 10**9))
    return "its kinds cost"


@falsify
def a_kind_costs_other_than_its_price(given: Json, rng: np.random.Generator) -> str:
    kind = one_of(given["question"]["kinds"], rng)
    kind["cost"] += int(rng.choice([-1, 1]))
    return "the price makes"


@falsify
def a_price_of_what_is_recommended_is_another(given: Json, rng: np.random.Generator) -> str:
    need(given["answer"])
    kinds = [kind for kind, n in zip(given["question"]["kinds"], given["answer"]["counts"],
                                     strict=True) if n]  # fmt: skip
    kind = one_of(kinds, rng)
    kind["price"] = {"usd_per_hour": "0.001"}
    kind["cost"] = 1_000_000
    return "its kinds cost|comes before|nothing is said"


@falsify
def the_runner_up_comes_first(given: Json, rng: np.random.Generator) -> str:
    need(given["runner_up"])
    given["answer"], given["runner_up"] = given["runner_up"], given["answer"]
    return "comes before the answer"


@falsify
def the_runner_up_is_the_answer(given: Json, rng: np.random.Generator) -> str:
    need(given["runner_up"])
    given["answer"], given["runner_up"] = given["runner_up"], "unknown"
    return "nothing is said of"


@falsify
def there_is_no_runner_up(given: Json, rng: np.random.Generator) -> str:
    need(given["runner_up"])
    given["runner_up"] = None
    return "nothing is said of"


@falsify
def there_is_no_answer(given: Json, rng: np.random.Generator) -> str:
    need(given["answer"])
    given["answer"] = given["runner_up"] = None
    return "nothing is said of"


@falsify
def a_policy_was_not_tried(given: Json, rng: np.random.Generator) -> str:
    one = one_of(given["tried"], rng)
    one["runs"].remove(one_of(of_stated(given, one), rng))
    return "was not tried"


@falsify
def a_run_is_said_to_be_of_another_policy(given: Json, rng: np.random.Generator) -> str:
    need(given["tried"] and len(given["question"]["policies"]) >= 2)
    run = given["runs"][one_of(of_stated(given, one_of(given["tried"], rng)), rng)]
    others = [at for at in range(len(given["question"]["policies"])) if at != run["policy"]]
    run["policy"] = one_of(others, rng)
    return (
        "was not tried|other templates|are late|and not on all of|has a deployment|"
        "does not exclude what"
    )


@falsify
def an_instance_is_left_out(given: Json, rng: np.random.Generator) -> str:
    rows = [row for run in for_all(given) for row in run["instances"] if len(row) > 1]
    row = one_of(rows, rng)
    row.remove(one_of(row, rng))
    return "and not on all of"


@falsify
def an_instance_is_on_another_device(given: Json, rng: np.random.Generator) -> str:
    found = a_played_way(given, rng)
    one, way, counts = found
    one["copies"][0] = counts[way["kinds"][0]] + int(rng.integers(3))
    return "there are fewer"


@falsify
def an_instance_takes_one_for_two(given: Json, rng: np.random.Generator) -> str:
    rows = []
    for run in played(given):
        for model in run["instances"]:
            for one in model:
                way = given["ways"][given["templates"][one["templates"][0][0]]["way"]]
                kinds = way["kinds"]
                rows += [
                    (one["copies"], kinds.index(kind), unit)
                    for unit, kind in enumerate(kinds)
                    if kinds.index(kind) < unit
                ]
    copies, first, second = one_of(rows, rng)
    copies[second] = copies[first]
    return "instead of two"


@falsify
def a_device_is_in_a_way_twice(given: Json, rng: np.random.Generator) -> str:
    ways = [way for way in given["ways"] if len(way["devices"]) > 1]
    devices = one_of(ways, rng)["devices"]
    devices[1][:2] = devices[0][:2]
    return "a device twice"


@falsify
def a_batch_runs_on_other_devices(given: Json, rng: np.random.Generator) -> str:
    found = a_played_way(given, rng)
    need(len(found[0]["templates"][0]) >= 2)
    one, way, _ = found
    second = given["ways"][given["templates"][one["templates"][0][1]]["way"]]
    slots = [row[:2] for row in way["devices"]]
    others = [
        at for at, template in enumerate(given["templates"])
        if (other := given["ways"][template["way"]])["class"] == way["class"]
        and other["batch"] >= second["batch"]
        and (other["kinds"] != way["kinds"] or [row[:2] for row in other["devices"]] != slots)
    ]  # fmt: skip
    one["templates"][0][1] = one_of(others, rng)
    return "other templates"


@falsify
def a_batch_runs_as_another_class(given: Json, rng: np.random.Generator) -> str:
    rows = [row for run in played(given) for model in run["instances"] for one in model
            for row in one["templates"]]  # fmt: skip
    row = one_of(rows, rng)
    classes = [given["ways"][one["way"]]["class"] for one in given["templates"]]
    others = [at for at, of in enumerate(classes) if of != classes[row[0]]]
    need(others)
    row[0] = one_of(others, rng)
    return "of class|there are fewer|other templates|entries instead|instead of two"


@falsify
def a_small_batch_is_run_in_place_of_a_large_one(given: Json, rng: np.random.Generator) -> str:
    rows = [row for run in played(given) for model in run["instances"] for one in model
            for row in one["templates"] if len(row) > 1]  # fmt: skip
    row = one_of(rows, rng)
    row[1] = row[0]
    return "other templates"


@falsify
def a_task_is_quicker_than_least_says(given: Json, rng: np.random.Generator) -> str:
    task = one_of([t for one in given["templates"] for t in one["tasks"] if t[0] >= 0], rng)
    task[1] *= float(rng.uniform(0.1, 0.99))
    return "at least"


@falsify
def least_says_more_than_a_task_takes(given: Json, rng: np.random.Generator) -> str:
    need(given["templates"])
    _, way = a_way(given, rng)
    one_of(way["devices"], rng)[2] *= float(rng.uniform(1.01, 5))
    return "at least"


@falsify
def a_link_is_held_for_less_than_least_says(given: Json, rng: np.random.Generator) -> str:
    ways = [one["way"] for one in given["templates"] if any(given["ways"][one["way"]]["links"])]
    links = given["ways"][one_of(ways, rng)]["links"]
    links[one_of([at for at, one in enumerate(links) if one], rng)] *= float(rng.uniform(1.01, 5))
    return "on link .* at least"


@falsify
def least_says_what_is_slower_than_a_template(given: Json, rng: np.random.Generator) -> str:
    need(given["templates"])
    template, way = a_way(given, rng)
    way["alone_s"] = sum(task[1] for task in template["tasks"]) * float(rng.uniform(1.01, 5))
    return "alone it takes|earns|nothing is said|less than 1 of"


@falsify
def a_template_is_of_no_way(given: Json, rng: np.random.Generator) -> str:
    need(given["templates"])
    given["templates"][0]["way"] = len(given["ways"])
    return "whole number"


@falsify
def arrivals_are_thinned(given: Json, rng: np.random.Generator) -> str:
    need(any(row[3] > 3 for run in played(given) for row in run["judged"]))
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


@falsify
def arrivals_come_slower(given: Json, rng: np.random.Generator) -> str:
    need(any(row[3] > 3 for run in played(given) for row in run["judged"]))
    time = unpacked(given["arrivals"]["time_s"], "<f8")
    given["arrivals"]["time_s"] = packed(time * float(rng.uniform(2, 5)), "<f8")
    return MISCOUNTED


@falsify
def not_all_of_a_trace_is_played(given: Json, rng: np.random.Generator) -> str:
    need(given["question"]["demand"] == "trace")
    run = one_of(played(given), rng)
    run["played"] -= int(rng.integers(1, 10))
    return "not the whole trace"


@falsify
def an_objective_is_laxer(given: Json, rng: np.random.Generator) -> str:
    streams = [(s, row[1]) for run in played(given) for row in run["judged"]
               if row[3] > 3 and (s := row[0]) is not None]  # fmt: skip
    stream, slo = one_of(streams, rng)
    given["question"]["streams"][stream]["slos"][slo][1] *= 1e6
    return MISCOUNTED


@falsify
def an_objective_is_not_judged(given: Json, rng: np.random.Generator) -> str:
    need(given["answer"])
    judged = given["runs"][given["answer"]["run"]]["judged"]
    judged.remove(one_of(judged, rng))
    return "that is undecided"


@falsify
def a_kind_is_not_to_be_had(given: Json, rng: np.random.Generator) -> str:
    found = last(given)
    at = one_of([at for at, n in enumerate(found["counts"]) if n], rng)
    given["question"]["kinds"][at]["most"] = found["counts"][at] - 1
    return "more than are available"


@falsify
def a_kind_is_dropped(given: Json, rng: np.random.Generator) -> str:
    if not given["runs"] and not given["question"]["limits"]:
        # That none meets, none of fewer kinds does either.
        raise Nothing
    given["question"]["kinds"].pop(int(rng.integers(len(given["question"]["kinds"]))))
    return r"entries instead of|at least 1 item|/ways/\d+/.*: no whole number"


@falsify
def fewer_devices_may_be_had(given: Json, rng: np.random.Generator) -> str:
    found = last(given)
    kinds = given["question"]["kinds"]
    many = sum(kind["counts"] * n for kind, n in zip(kinds, found["counts"], strict=True))
    need(many)
    given["question"]["max_devices"] = many - 1
    return "more than are available"


@falsify
def a_device_runs_more_at_once(given: Json, rng: np.random.Generator) -> str:
    bound = one_of(bounds_by(given, "rate", "window", "pooled"), rng)
    ways = counted(given, bound)
    need(ways)
    for device in given["question"]["devices"]:
        device["streams"] *= 10
    if not any(
        takes(given, bound, way) < bound["worth"][way["class"]] * way["batch"] * (1 - 1e-9)
        for way in ways
    ):
        raise Nothing
    return "earns"


@falsify
def verdicts_may_be_wrong_less_often(given: Json, rng: np.random.Generator) -> str:
    need(given["question"]["demand"] != "trace")
    need(any(row[5] for run in played(given) for row in run["judged"] if row[4] != "undecided"))
    given["question"]["error"] = 1e-9
    return "may be wrong by"


@falsify
def a_verdict_of_the_long_run_is_certain(given: Json, rng: np.random.Generator) -> str:
    need(given["question"]["demand"] != "trace")
    rows = [row for run in played(given) for row in run["judged"] if row[4] != "undecided"]
    one_of(rows, rng)[5] = 0.0
    return "may be wrong"


@falsify
def a_policy_has_no_deployment(given: Json, rng: np.random.Generator) -> str:
    run = one_of(for_all(given), rng)
    for key in ("instances", "played", "judged"):
        del run[key]
    run["none"] = "nobody knows"
    return "has a deployment there: each model has a device"


@falsify
def what_meets_is_excluded(given: Json, rng: np.random.Generator) -> str:
    bounds = [at for at, one in enumerate(given["bounds"]) if one["by"] != "needs"]
    need(given["answer"] and bounds)
    run = given["runs"][given["answer"]["run"]]
    places = [
        [
            {"copies": one["copies"], "way": given["templates"][one["templates"][0][0]]["way"]}
            for one in row
        ]
        for row in run["instances"]
    ]
    for key in ("instances", "played", "judged"):
        del run[key]
    run |= {"bound": one_of(bounds, rng), "places": places}
    return "does not exclude what"


@falsify
def what_is_excluded_serves_on_fewer_devices(given: Json, rng: np.random.Generator) -> str:
    policies = given["question"]["policies"]
    rows = [row for run in by_bound(given) for row in run["places"]
            if policies[run["policy"]]["placement"] == "all"]  # fmt: skip
    row = one_of(rows, rng)
    row.remove(one_of(row, rng))
    return "and not on all of"


@falsify
def a_policy_is_excluded_by_what_is_needed(given: Json, rng: np.random.Generator) -> str:
    needs = [at for at, one in enumerate(given["bounds"]) if one["by"] == "needs"]
    run = one_of(by_bound(given), rng)
    need(needs)
    run["bound"] = one_of(needs, rng)
    return "worth nothing"


@falsify
def a_loss_is_left_out(given: Json, rng: np.random.Generator) -> str:
    need(given["answer"] and given["answer"].get("without"))
    rows = given["answer"]["without"]
    rows.remove(one_of(rows, rng))
    return "nothing is said of it without devices"


@falsify
def a_loss_is_of_the_runner_up(given: Json, rng: np.random.Generator) -> str:
    need(given["runner_up"] and given["runner_up"].get("without"))
    given["answer"].setdefault("without", []).append(given["runner_up"]["without"][0])
    return "/answer/without/.*a run of"


@falsify
def what_is_lost_serves(given: Json, rng: np.random.Generator) -> str:
    need(given["question"].get("losses"))
    runs = [run for run in for_all(given) if not run["lost"]]
    run = one_of(runs, rng)
    kinds = given["question"]["kinds"]
    instance = run["instances"][0][0]
    way = given["ways"][given["templates"][instance["templates"][0][0]]["way"]]
    unit, place, _ = way["devices"][0]
    kind = way["kinds"][unit]
    before = sum(
        n * len(one["devices"]) for n, one in zip(run["counts"][:kind], kinds, strict=False)
    )
    run["lost"] = [before + instance["copies"][unit] * len(kinds[kind]["devices"]) + place]
    return "on a device that is lost|and not on all of"


@falsify
def what_does_not_serve_is_there(given: Json, rng: np.random.Generator) -> str:
    runs = [run for run in for_all(given) if run.get("lost")]
    run = one_of(runs, rng)
    run["lost"] = []
    return "and not on all of"


@falsify
def more_may_be_lost(given: Json, rng: np.random.Generator) -> str:
    need(given["question"].get("losses") and given["answer"])
    given["question"]["losses"] += 1
    return "without devices|a bound excludes what meets"


@falsify
def no_policy_is_stated(given: Json, rng: np.random.Generator) -> str:
    given["question"]["policies"] = []
    return "at least 1 item"
