"""Runs, answers and vectors of which what is not so is said; see ``falsified``."""

from __future__ import annotations

import numpy as np

from certificate_parts import Json, a_played_way, by_bound, called, for_all, last, one_of, played


def a_vector_that_was_tried_is_hidden(given: Json, rng: np.random.Generator) -> str | None:
    if not given["tried"]:
        return None
    given["tried"].remove(one_of(given["tried"], rng))
    return "nothing is said of"


def an_undecided_vector_is_hidden(given: Json, rng: np.random.Generator) -> str | None:
    if not given["undecided"]:
        return None
    given["undecided"].remove(one_of(given["undecided"], rng))
    return "nothing is said of"


def late_requests_are_miscounted(given: Json, rng: np.random.Generator) -> str | None:
    row = one_of([row for run in played(given) for row in run["judged"]], rng)
    if row is None:
        return None
    row[3] += int(rng.integers(1, 20) * rng.choice([-1, 1]))
    return "are late|greater than or equal to 0"


def a_miss_is_called_met(given: Json, rng: np.random.Generator) -> str | None:
    return "are late: misses" if called(given, rng, "misses", "meets") else None


def what_meets_is_called_a_miss(given: Json, rng: np.random.Generator) -> str | None:
    return "are late: meets" if called(given, rng, "meets", "misses") else None


def undecided_is_called_a_miss(given: Json, rng: np.random.Generator) -> str | None:
    return "are late: (undecided|meets)" if called(given, rng, "undecided", "misses") else None


def undecided_is_called_tried(given: Json, rng: np.random.Generator) -> str | None:
    if not given["undecided"]:
        return None
    counts = one_of(given["undecided"], rng)
    given["undecided"].remove(counts)
    runs = [at for at, run in enumerate(given["runs"]) if run["counts"] == counts]
    given["tried"].append({"counts": counts, "runs": runs})
    return "a run that is undecided|was not tried"


def the_answer_is_one_that_misses(given: Json, rng: np.random.Generator) -> str | None:
    missed = [at for at, run in enumerate(given["runs"])
              if any(row[4] == "misses" for row in run.get("judged", ()))]  # fmt: skip
    if not missed or not given["answer"]:
        return None
    run = one_of(missed, rng)
    counts = given["runs"][run]["counts"]
    cost = sum(k["cost"] * n for k, n in zip(given["question"]["kinds"], counts, strict=True))
    without = {"without": []} if given["question"].get("losses") else {}
    given["answer"] = {"counts": counts, "cost": cost, "run": run, **without}
    return "that is misses"


def the_answer_is_of_another_vector_s_run(given: Json, rng: np.random.Generator) -> str | None:
    if not given["answer"] or not given["runner_up"]:
        return None
    given["answer"]["run"] = given["runner_up"]["run"]
    return "a run of"


def costs_do_not_add_up(given: Json, rng: np.random.Generator) -> str | None:
    if not (one := given["answer"] if rng.random() < 0.5 else last(given)):
        return None
    one["cost"] += int(rng.integers(1, 10**9))
    return "its kinds cost"


def the_runner_up_comes_first(given: Json, rng: np.random.Generator) -> str | None:
    if not given["runner_up"]:
        return None
    given["answer"], given["runner_up"] = given["runner_up"], given["answer"]
    return "comes before the answer"


def the_runner_up_is_the_answer(given: Json, rng: np.random.Generator) -> str | None:
    if not given["runner_up"]:
        return None
    given["answer"], given["runner_up"] = given["runner_up"], "unknown"
    return "nothing is said of"


def there_is_no_runner_up(given: Json, rng: np.random.Generator) -> str | None:
    if not given["runner_up"]:
        return None
    given["runner_up"] = None
    return "nothing is said of"


def there_is_no_answer(given: Json, rng: np.random.Generator) -> str | None:
    if not given["answer"]:
        return None
    given["answer"] = given["runner_up"] = None
    return "nothing is said of"


def a_policy_was_not_tried(given: Json, rng: np.random.Generator) -> str | None:
    one = one_of(given["tried"], rng)
    if one is None:
        return None
    one["runs"].remove(one_of(of_stated(given, one), rng))
    return "was not tried"


def of_stated(given: Json, one: Json) -> list[int]:
    """The runs of a vector that was tried, but for those of placements one by one."""
    policies = given["question"]["policies"]
    return [
        at for at in one["runs"] if policies[given["runs"][at]["policy"]]["placement"] != "each"
    ]


def a_run_is_said_to_be_of_another_policy(given: Json, rng: np.random.Generator) -> str | None:
    if not given["tried"] or len(given["question"]["policies"]) < 2:
        return None
    run = given["runs"][one_of(of_stated(given, one_of(given["tried"], rng)), rng)]
    others = [at for at in range(len(given["question"]["policies"])) if at != run["policy"]]
    run["policy"] = one_of(others, rng)
    return (
        "was not tried|other templates|are late|and not on all of|has a deployment|"
        "does not exclude what"
    )


def an_instance_is_left_out(given: Json, rng: np.random.Generator) -> str | None:
    rows = [row for run in for_all(given) for row in run["instances"] if len(row) > 1]
    if not rows:
        return None
    row = one_of(rows, rng)
    row.remove(one_of(row, rng))
    return "and not on all of"


def an_instance_is_on_another_device(given: Json, rng: np.random.Generator) -> str | None:
    found = a_played_way(given, rng)
    if found is None:
        return None
    one, way, counts = found
    one["copies"][0] = counts[way["kinds"][0]] + int(rng.integers(3))
    return "there are not so many"


def an_instance_takes_one_for_two(given: Json, rng: np.random.Generator) -> str | None:
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
    if not rows:
        return None
    copies, first, second = one_of(rows, rng)
    copies[second] = copies[first]
    return "in the place of two"


def a_batch_runs_on_other_devices(given: Json, rng: np.random.Generator) -> str | None:
    found = a_played_way(given, rng)
    if found is None or len(found[0]["templates"][0]) < 2:
        return None
    one, way, _ = found
    second = given["ways"][given["templates"][one["templates"][0][1]]["way"]]
    slots = [row[:2] for row in way["devices"]]
    others = [
        at for at, template in enumerate(given["templates"])
        if (other := given["ways"][template["way"]])["class"] == way["class"]
        and other["batch"] >= second["batch"]
        and (other["kinds"] != way["kinds"] or [row[:2] for row in other["devices"]] != slots)
    ]  # fmt: skip
    if not others:
        return None
    one["templates"][0][1] = one_of(others, rng)
    return "other templates"


def a_batch_runs_as_another_class(given: Json, rng: np.random.Generator) -> str | None:
    rows = [row for run in played(given) for model in run["instances"] for one in model
            for row in one["templates"]]  # fmt: skip
    if not rows:
        return None
    row = one_of(rows, rng)
    classes = [given["ways"][one["way"]]["class"] for one in given["templates"]]
    others = [at for at, of in enumerate(classes) if of != classes[row[0]]]
    if not others:
        return None
    row[0] = one_of(others, rng)
    return "of class|there are not so many|other templates|entries in the place|in the place of two"


def a_small_batch_is_run_in_place_of_a_large_one(
    given: Json, rng: np.random.Generator
) -> str | None:
    rows = [row for run in played(given) for model in run["instances"] for one in model
            for row in one["templates"] if len(row) > 1]  # fmt: skip
    if not rows:
        return None
    row = one_of(rows, rng)
    row[1] = row[0]
    return "other templates"


def not_all_of_a_trace_is_played(given: Json, rng: np.random.Generator) -> str | None:
    if given["question"]["demand"] != "trace":
        return None
    run = one_of(played(given), rng)
    if run is None:
        return None
    run["played"] -= int(rng.integers(1, 10))
    return "not the whole trace"


def an_objective_is_not_judged(given: Json, rng: np.random.Generator) -> str | None:
    if not given["answer"]:
        return None
    judged = given["runs"][given["answer"]["run"]]["judged"]
    judged.remove(one_of(judged, rng))
    return "that is undecided"


def a_verdict_of_the_long_run_is_certain(given: Json, rng: np.random.Generator) -> str | None:
    if given["question"]["demand"] == "trace":
        return None
    rows = [row for run in played(given) for row in run["judged"] if row[4] != "undecided"]
    if not rows:
        return None
    one_of(rows, rng)[5] = 0.0
    return "may be wrong"


def a_policy_has_no_deployment(given: Json, rng: np.random.Generator) -> str | None:
    run = one_of(for_all(given), rng)
    if run is None:
        return None
    for key in ("instances", "played", "judged"):
        del run[key]
    run["none"] = "nobody knows"
    return "has a deployment there: each model has a device"


def what_meets_is_excluded(given: Json, rng: np.random.Generator) -> str | None:
    bounds = [at for at, one in enumerate(given["bounds"]) if one["by"] != "needs"]
    if not given["answer"] or not bounds:
        return None
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


def what_is_excluded_serves_on_fewer_devices(given: Json, rng: np.random.Generator) -> str | None:
    policies = given["question"]["policies"]
    rows = [row for run in by_bound(given) for row in run["places"]
            if policies[run["policy"]]["placement"] == "all"]  # fmt: skip
    if not rows:
        return None
    row = one_of(rows, rng)
    row.remove(one_of(row, rng))
    return "and not on all of"


def a_policy_is_excluded_by_what_is_needed(given: Json, rng: np.random.Generator) -> str | None:
    needs = [at for at, one in enumerate(given["bounds"]) if one["by"] == "needs"]
    run = one_of(by_bound(given), rng)
    if run is None or not needs:
        return None
    run["bound"] = one_of(needs, rng)
    return "worth nothing"


def a_loss_is_left_out(given: Json, rng: np.random.Generator) -> str | None:
    if not given["answer"] or not given["answer"].get("without"):
        return None
    rows = given["answer"]["without"]
    rows.remove(one_of(rows, rng))
    return "nothing is said of it without devices"


def a_loss_is_of_the_runner_up(given: Json, rng: np.random.Generator) -> str | None:
    if not given["runner_up"] or not given["runner_up"].get("without"):
        return None
    given["answer"].setdefault("without", []).append(given["runner_up"]["without"][0])
    return "/answer/without/.*a run of"


def what_is_lost_serves(given: Json, rng: np.random.Generator) -> str | None:
    if not given["question"].get("losses"):
        return None
    runs = [run for run in for_all(given) if not run["lost"]]
    run = one_of(runs, rng)
    if run is None:
        return None
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


def what_does_not_serve_is_there(given: Json, rng: np.random.Generator) -> str | None:
    runs = [run for run in for_all(given) if run.get("lost")]
    run = one_of(runs, rng)
    if run is None:
        return None
    run["lost"] = []
    return "and not on all of"
