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

AGAIN = "when it is played again"

MISCOUNTED = (
    r"may be|all that it must be|earns|less than 1 of|no whole number|no request"
    rf"|do not say that this rate misses|arrivals come at|{AGAIN}"
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
    """All runs that were played."""
    return [run for one in given["played"] for run in one["runs"] if "judged" in run]


def bounds_by(given: Json, *by: str) -> list[Json]:
    return [bound for bound in given["bounds"] if bound["by"] in by]


def last(given: Json) -> Json:
    found: Json | None = given["runner_up"] or given["answer"]
    need(found)
    return found


def ways_of(given: Json) -> list[tuple[int, Json, list[int], list[int]]]:
    """All ways: class, way, the types of its devices and the places of its links in capacities."""
    question = given["question"]
    kinds, types = question["kinds"], len(question["types"])
    first = np.cumsum([types] + [kind["links"] for kind in kinds]).tolist()
    links_of = [list(range(first[k], first[k + 1])) for k in range(len(kinds))]
    found = []
    for row in question["ways"]:
        home = next(k for k, kind in enumerate(kinds) if row["of_type"] in kind["devices"])
        found += [(row["of_class"], way, [row["of_type"]], links_of[home]) for way in row["ways"]]
    for one in question["splits"]:
        devices = [kinds[one["kinds"][unit]]["devices"][slot] for unit, slot in one["devices"]]
        links = [link for kind in one["kinds"] for link in links_of[kind]]
        for of_class, ways in one["ways"].items():
            found += [(int(of_class), way, devices, links) for way in ways]
    return found


def takes(given: Json, bound: Json, way: Json, devices: list[int], links: list[int]) -> float:
    """What a way takes of devices and links, by the capacity of a bound."""
    capacity, types = bound["capacity"], given["question"]["types"]
    found = 0.0
    for slot, seconds, held, _ in way["tasks"]:
        if slot >= 0:
            found += capacity[devices[slot]] * seconds / types[devices[slot]]["streams"]
        found += sum(capacity[links[link]] * seconds for link in held)
    return found


def counted(given: Json, bound: Json) -> list[tuple[float, float, list[int], list[int]]]:
    """Of each way that a bound is about: what it earns and takes, its devices and links."""
    question = given["question"]
    found = []
    for of_class, way, devices, links in ways_of(given):
        limits = [
            question["streams"][ask["stream"]]["slos"][bound["slo"][ask["stream"]]]["latency_s"]
            for ask in question["asks"]
            if ask["of_class"] == of_class and bound["slo"][ask["stream"]] is not None
        ]
        if bound["worth"][of_class] > 0 and way["alone_s"] <= max(limits, default=-1):
            earns = bound["worth"][of_class] * way["batch"]
            found.append((earns, takes(given, bound, way, devices, links), devices, links))
    return found


@falsify
def a_vector_that_was_played_is_hidden(given: Json, rng: np.random.Generator) -> str:
    given["played"].remove(one_of(given["played"], rng))
    # Of drawn requests each run has its part of the error.
    return f"nothing is said of|of what was played it is|{AGAIN}"


@falsify
def a_vector_stands_twice(given: Json, rng: np.random.Generator) -> str:
    given["played"].append(one_of(given["played"], rng))
    return "does not come after the one before"


@falsify
def bounds_are_hidden(given: Json, rng: np.random.Generator) -> str:
    # The empty platform, at least, is excluded by all of them and by nothing else.
    need(given["bounds"])
    given["bounds"] = []
    return "nothing is said of|/bounds: no whole number"


@falsify
def a_bound_was_not_known(given: Json, rng: np.random.Generator) -> str:
    one_of(given["played"], rng)["bounds"] = len(given["bounds"]) + 1
    return "/bounds: no whole number"


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
    # Where a way takes several of them, the others may make up for less.
    bound["capacity"][one_of(devices, rng)] *= float(rng.uniform(0, 0.3))
    return "less than 1 of what would do"


@falsify
def what_a_way_takes_has_less_capacity(given: Json, rng: np.random.Generator) -> str:
    bound = one_of(bounds_by(given, "rate", "window", "pooled"), rng)
    earns, takes, devices, links = one_of(counted(given, bound), rng)
    less = earns / takes * float(rng.uniform(0, 0.999))
    for resource in {*devices, *links}:
        bound["capacity"][resource] *= less
    return "earns"


@falsify
def a_link_of_capacity_has_none(given: Json, rng: np.random.Generator) -> str:
    types = len(given["question"]["types"])
    bound = one_of([b for b in bounds_by(given, "rate", "window", "pooled")
                    if any(b["capacity"][types:])], rng)  # fmt: skip
    bound["capacity"][types:] = [0.0] * len(bound["capacity"][types:])
    need(any(takes < earns * (1 - 1e-9) for earns, takes, *_ in counted(given, bound)))
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
    shares = [slo["share"] for stream in given["question"]["streams"] for slo in stream["slos"]]
    few = int((1 - max(shares)) * sum(given["arrivals"]["pieces"]) / len(shares) / 2)
    need(few >= 1)
    bound["window"][1] = bound["window"][0] + int(rng.integers(0, few))
    return "all that it must be"


@falsify
def bounds_may_be_wrong_more_often(given: Json, rng: np.random.Generator) -> str:
    one_of([one for one in given["bounds"] if one["error"]], rng)["error"] = 0.2
    return "may be wrong by|do not say that this rate misses"


@falsify
def late_requests_are_miscounted(given: Json, rng: np.random.Generator) -> str:
    row = one_of([row for run in played(given) for row in run["judged"]], rng)
    row[3] += int(rng.integers(1, 20))
    return AGAIN


@falsify
def a_verdict_is_another(given: Json, rng: np.random.Generator) -> str:
    row = one_of([row for run in played(given) for row in run["judged"]], rng)
    row[4] = one_of([one for one in ("meets", "misses", "undecided") if one != row[4]], rng)
    return AGAIN


@falsify
def a_verdict_of_the_long_run_is_certain(given: Json, rng: np.random.Generator) -> str:
    rows = [row for run in played(given) for row in run["judged"] if row[5]]
    one_of(rows, rng)[5] = 0.0
    return AGAIN


@falsify
def an_objective_is_not_judged(given: Json, rng: np.random.Generator) -> str:
    one_of(played(given), rng)["judged"].pop()
    return AGAIN


@falsify
def a_run_is_left_out(given: Json, rng: np.random.Generator) -> str:
    one_of([one for one in given["played"] if one["runs"]], rng)["runs"].pop()
    return AGAIN


@falsify
def a_run_is_of_another_policy(given: Json, rng: np.random.Generator) -> str:
    run = one_of([run for one in given["played"] for run in one["runs"]], rng)
    run["policies"] = [run["policies"][0] + 1]
    return AGAIN


@falsify
def an_instance_is_left_out(given: Json, rng: np.random.Generator) -> str:
    one_of([row for run in played(given) for row in run["instances"]], rng).pop()
    return AGAIN


@falsify
def an_instance_is_on_another_device(given: Json, rng: np.random.Generator) -> str:
    instances = [one for run in played(given) for row in run["instances"] for one in row]
    one_of(instances, rng)["devices"][0] += 1
    return AGAIN


@falsify
def a_policy_has_no_deployment(given: Json, rng: np.random.Generator) -> str:
    run = one_of(played(given), rng)
    for key in ("instances", "played", "judged", "also"):
        del run[key]
    run["none"] = "nobody knows"
    return AGAIN


@falsify
def what_is_played_is_excluded(given: Json, rng: np.random.Generator) -> str:
    run = one_of(played(given), rng)
    for key in ("played", "judged", "also"):
        del run[key]
    run["bound"] = 0
    return AGAIN


@falsify
def what_is_excluded_is_by_another_bound(given: Json, rng: np.random.Generator) -> str:
    runs = [run for one in given["played"] for run in one["runs"] if "bound" in run]
    one_of(runs, rng)["bound"] += 1
    return AGAIN


@falsify
def other_devices_are_lost(given: Json, rng: np.random.Generator) -> str:
    run = one_of([run for one in given["played"] for run in one["runs"] if run["lost"]], rng)
    run["lost"] = []
    return AGAIN


@falsify
def a_loss_is_left_out(given: Json, rng: np.random.Generator) -> str:
    one_of([run["also"] for run in played(given) if run["also"]], rng).pop()
    return AGAIN


@falsify
def more_may_be_lost(given: Json, rng: np.random.Generator) -> str:
    need(given["question"]["losses"] and given["answer"])
    given["question"]["losses"] += 1
    return f"{AGAIN}|a bound excludes what meets"


@falsify
def the_answer_is_another(given: Json, rng: np.random.Generator) -> str:
    need(given["answer"])
    others = [one for one in given["played"] if one["counts"] != given["answer"]["counts"]]
    given["answer"]["counts"] = one_of(others, rng)["counts"]
    return "/answer: of what was played it is"


@falsify
def costs_do_not_add_up(given: Json, rng: np.random.Generator) -> str:
    need(one := given["answer"] if rng.random() < 0.5 else last(given))
    one["cost"] += int(rng.integers(1, 10**9))
    return "of what was played it is"


@falsify
def a_kind_costs_other_than_its_price(given: Json, rng: np.random.Generator) -> str:
    kind = one_of(given["question"]["kinds"], rng)
    kind["cost"] += int(rng.choice([-1, 1]))
    return "the price makes"


@falsify
def a_price_of_what_is_recommended_is_another(given: Json, rng: np.random.Generator) -> str:
    need(given["answer"])
    counts = given["answer"]["counts"]
    kinds = [kind for kind, n in zip(given["question"]["kinds"], counts, strict=True) if n]
    kind = one_of(kinds, rng)
    kind["parts"] = {"usd_per_hour": "0.001"}
    kind["cost"] = 1_000_000
    return "of what was played it is|does not come after the one before"


@falsify
def the_runner_up_comes_first(given: Json, rng: np.random.Generator) -> str:
    need(given["runner_up"])
    given["answer"], given["runner_up"] = given["runner_up"], given["answer"]
    return "/answer: of what was played it is"


@falsify
def there_is_no_runner_up(given: Json, rng: np.random.Generator) -> str:
    need(given["runner_up"])
    given["runner_up"] = None
    given["played"].pop()
    return "nothing is said of"


@falsify
def there_is_no_answer(given: Json, rng: np.random.Generator) -> str:
    need(given["answer"])
    given["answer"] = given["runner_up"] = None
    return "/answer: of what was played it is"


@falsify
def a_device_is_in_a_split_twice(given: Json, rng: np.random.Generator) -> str:
    devices = one_of(given["question"]["splits"], rng)["devices"]
    devices[1] = devices[0]
    return "a device twice"


@falsify
def a_task_is_quicker_than_its_way(given: Json, rng: np.random.Generator) -> str:
    _, way, *_ = one_of(ways_of(given), rng)
    one_of([task for task in way["tasks"] if task[0] >= 0], rng)[1] *= float(rng.uniform(0.1, 0.99))
    return f"alone it takes|earns|{AGAIN}|nothing is said"


@falsify
def a_way_is_slower_than_its_tasks(given: Json, rng: np.random.Generator) -> str:
    _, way, *_ = one_of(ways_of(given), rng)
    way["alone_s"] = sum(task[1] for task in way["tasks"]) * float(rng.uniform(1.01, 5))
    return "alone it takes"


@falsify
def a_task_is_on_no_link(given: Json, rng: np.random.Generator) -> str:
    rows = [(way, links) for _, way, _, links in ways_of(given)]
    way, links = one_of([row for row in rows if any(task[2] for task in row[0]["tasks"])], rng)
    one_of([task for task in way["tasks"] if task[2]], rng)[2] = [len(links)]
    return "no device, link or task"


@falsify
def arrivals_are_thinned(given: Json, rng: np.random.Generator) -> str:
    need(any(row[3] > 3 for run in played(given) for row in run["judged"]))
    arrivals = given["arrivals"]
    time, ask = unpacked(arrivals["time_s"], "<f8"), unpacked(arrivals["ask"], "<u2")
    kept = rng.random(len(time)) < 0.7
    arrivals |= {
        "pieces": [int(kept.sum())],
        "time_s": packed(time[kept], "<f8"),
        "ask": packed(ask[kept], "<u2"),
    }
    for bound in bounds_by(given, "window"):
        bound["window"][1] = min(bound["window"][1], int(kept.sum()) - 1)
    return MISCOUNTED


@falsify
def arrivals_come_slower(given: Json, rng: np.random.Generator) -> str:
    need(any(row[3] > 3 for run in played(given) for row in run["judged"]))
    time = unpacked(given["arrivals"]["time_s"], "<f8")
    # Of requests that come at one moment as many are late.
    need((np.diff(time) > 0).all())
    given["arrivals"]["time_s"] = packed(time * float(rng.uniform(2, 5)), "<f8")
    return MISCOUNTED


@falsify
def not_all_requests_are_played(given: Json, rng: np.random.Generator) -> str:
    one_of(played(given), rng)["played"] -= int(rng.integers(1, 10))
    return AGAIN


@falsify
def an_objective_is_laxer(given: Json, rng: np.random.Generator) -> str:
    rows = [row for run in played(given) for row in run["judged"] if row[3] > 3]
    stream, slo, *_ = one_of(rows, rng)
    given["question"]["streams"][stream]["slos"][slo]["latency_s"] *= 1e6
    return MISCOUNTED


@falsify
def a_kind_is_not_to_be_had(given: Json, rng: np.random.Generator) -> str:
    found = last(given)
    at = one_of([at for at, n in enumerate(found["counts"]) if n], rng)
    given["question"]["kinds"][at]["most"] = found["counts"][at] - 1
    return "more than are available"


@falsify
def a_kind_is_dropped(given: Json, rng: np.random.Generator) -> str:
    given["question"]["kinds"].pop(int(rng.integers(len(given["question"]["kinds"]))))
    return "of no kind|no kinds"


@falsify
def fewer_devices_may_be_had(given: Json, rng: np.random.Generator) -> str:
    found = last(given)
    kinds = given["question"]["kinds"]
    many = sum(n for kind, n in zip(kinds, found["counts"], strict=True) if not kind["slots"])
    need(many)
    given["question"]["max_devices"] = many - 1
    return "more than are available"


@falsify
def a_device_runs_more_at_once(given: Json, rng: np.random.Generator) -> str:
    bound = one_of(bounds_by(given, "rate", "window", "pooled"), rng)
    for one in given["question"]["types"]:
        one["streams"] *= 10
    need(any(takes < earns * (1 - 1e-9) for earns, takes, *_ in counted(given, bound)))
    return "earns"


@falsify
def no_policy_is_stated(given: Json, rng: np.random.Generator) -> str:
    given["policies"] = []
    return "/policies: none"
