"""What failures cost for real: random kills of many kinds, eight requests in flight.

A session on three devices bears five faults in turn, each at a random moment while eight
requests are in flight; the last one takes a device away for good. On threads a device dies four
times, and then is lost or hangs. On Ray, where each device is
bound to a node of its own, it is

- ``actor``, ``worker``, ``abort``: its actor is killed by Ray; its process by SIGKILL, as a
  kernel does that is out of memory; or by SIGABRT, as a library does that is;
- ``node``, ``raylet``: its node ends with all its processes, or its raylet alone is killed;
- ``lost``: it dies and never comes back.

After each of these all outputs must be those of the whole model in ONNX Runtime to the last bit,
within the deadline. ``gcs`` kills the cluster's control plane under a driver of its own: each
request must end in time, right or with an error under HetsimError, and the driver must not go
with it. Every request is counted: right, wrong, lost with its error, or not answered; and so are
processes and threads that outlive their session. JSON lines on stdout, one a fault and one in
sum; exit code 1 where something was not so:

    python benchmarks/faults.py [--executor NAME] [--sessions N] [--gcs N] [--seed S]
                                [--first K] [--minutes M]

What a session bears follows from the seed and its number: a run that was ended after K sessions
goes on with ``--first K``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import hetsim
from fault_cluster import DEVICES, Nodes, model_file, plan_of
from hetsim.errors import HetsimError
from hetsim.execution.run import differences, run_whole
from hetsim.execution.transports.processes import command_line, descendants, end_all
from hetsim.execution.weights import staged
from hetsim.graph.inputs.samples import random_inputs
from marked import marked

PASSING = {
    "ray": ("actor", "worker", "abort"),
    "threads": ("kill",),
}
LAST = {
    "ray": ("node", "raylet", "lost"),
    "threads": ("lost", "hang"),
}
FAULTS = 5
REQUESTS = 8
DEADLINE_S = 120.0
HANG_S = {"ray": 60.0, "threads": 5.0}
MARK = "HETSIM_FAULTS_RUN"


def left_behind() -> int:
    """Actors' processes and sessions' threads that are there, once they have had time to go."""
    deadline = time.monotonic() + 20.0
    while True:
        below = [(process, command_line(process)) for process in descendants(os.getpid())]
        actors = [p for p, words in below if "DeviceActor" in words]
        threads = [t for t in threading.enumerate() if t.name.startswith("hetsim")]
        if not (actors or threads) or time.monotonic() > deadline:
            return len(actors) + len(threads)
        time.sleep(0.05)


def strike(kind: str, device: str, session: hetsim.Session, nodes: Nodes | None) -> None:
    """Make something fail, now."""
    if kind in ("actor", "kill"):
        session.inject([hetsim.Failure(device, 0.0, "kill", 0.0)])
    elif kind == "hang":
        session.inject([hetsim.Failure(device, 0.0, "hang", 0.0)])
    elif kind == "lost":
        session.inject([hetsim.Failure(device, 0.0)])
    elif kind in ("worker", "abort"):
        number = signal.SIGKILL if kind == "worker" else signal.SIGABRT
        os.kill(session.processes()[device], number)
    elif nodes is not None and kind == "node":
        nodes.kill(device)
    elif nodes is not None:
        os.kill(nodes.process(kind, device), signal.SIGKILL)


def under_fire(
    session: hetsim.Session,
    nodes: Nodes | None,
    wanted: list[Any],
    kind: str,
    device: str,
    at_s: float,
) -> dict[str, Any]:
    """Run eight requests while something fails; return what became of each."""
    ready = time.monotonic() + DEADLINE_S
    while kind != "gcs" and device not in session.processes() and time.monotonic() < ready:
        time.sleep(0.02)
    before = len(session.recoveries)
    began = time.monotonic()
    struck = threading.Event()

    def act() -> None:
        # A device that is down, from the fault before, cannot be struck.
        with suppress(KeyError, ProcessLookupError):
            strike(kind, device, session, nodes)
            struck.set()

    timer = threading.Timer(at_s, act)
    timer.start()
    ends: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    requests = []
    for seed in range(REQUESTS):
        try:
            requests.append((session.run_async(seed=seed), wanted[seed]))
        except HetsimError as error:
            ends["lost"] += 1
            errors[type(error).__name__] += 1
    for request, expected in requests:
        left_s = max(began + DEADLINE_S + 10.0 - time.monotonic(), 0.1)
        try:
            found = request.result(left_s)
        except hetsim.errors.TimedOut as error:
            ends["unanswered" if "is not done" in str(error) else "lost"] += 1
            errors[type(error).__name__] += 1
        except HetsimError as error:
            ends["lost"] += 1
            errors[type(error).__name__] += 1
        else:
            ends["wrong" if differences(found, expected) else "right"] += 1
    spent_s = time.monotonic() - began
    timer.join()
    return {
        "fault": kind,
        "struck": struck.is_set(),
        "device": device,
        "at_s": round(at_s, 4),
        **{end: ends[end] for end in ("right", "wrong", "lost", "unanswered")},
        "errors": dict(errors),
        "requests_s": round(spent_s, 3),
        "recoveries": [
            {"device": one.device, "kind": one.kind, "how": one.how, "s": round(one.seconds, 3),
             "requests": len(one.requests)}
            for one in session.recoveries[before:]
        ],
    }  # fmt: skip


def one_session(
    number: int,
    executor: Any,
    plan: hetsim.Plan,
    nodes: Nodes | None,
    wanted: list[Any],
    span_s: float,
    seed: int,
    emit: Callable[[dict[str, Any]], None],
) -> None:
    """Let a session bear five faults."""
    rng = np.random.default_rng((seed, number))
    with hetsim.Session(
        plan,
        executor,
        address=None if nodes is None else nodes.address,
        timeout_s=DEADLINE_S,
        hang_s=HANG_S[executor],
        max_in_flight=REQUESTS,
        max_restarts=10 * FAULTS,
    ) as session:
        for turn in range(FAULTS):
            last = turn == FAULTS - 1
            kinds = LAST[executor] if last else PASSING[executor]
            kind = kinds[(number if last else turn) % len(kinds)]
            device = str(rng.choice(DEVICES[1:] if last else DEVICES))
            at_s = float(rng.uniform(0, span_s))
            record = under_fire(session, nodes, wanted, kind, device, at_s)
            emit({"session": number, "turn": turn, **record})
            if kind == "raylet" and nodes is not None:
                nodes.kill(device)
    emit({"session": number, "left_behind": left_behind()})
    if nodes is not None:
        nodes.complete()


def calm_s(plan: hetsim.Plan, executor: Any, address: str | None) -> float:
    """Seconds that eight requests take where nothing fails."""
    with hetsim.Session(plan, executor, address=address) as session:
        session.run()
        began = time.monotonic()
        for request in [session.run_async(seed=seed) for seed in range(REQUESTS)]:
            request.result()
        return time.monotonic() - began


def without_control(number: int, seed: int) -> dict[str, Any]:
    """Have a driver of its own lose the cluster's GCS; return its record, or how it ended."""
    mark = f"{os.getpid()}-{seed}-{number}"
    words = [sys.executable, __file__, "--as-driver", str(number), "--seed", str(seed)]
    done = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ | {MARK: mark})
    try:
        text, _ = done.communicate(timeout=4 * DEADLINE_S)
    except subprocess.TimeoutExpired:
        done.kill()
        text, _ = done.communicate()
    found: dict[str, Any] = {"session": number, "fault": "gcs"}
    for line in text.splitlines():
        found |= json.loads(line)
    if "right" not in found:
        found |= {"right": 0, "wrong": 0, "lost": REQUESTS, "unanswered": 0}
        found["errors"] = {"the driver ended": REQUESTS}
    deadline = time.monotonic() + 20.0
    while (left := [pid for pid, _ in marked(MARK, mark)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    for process in left:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return {**found, "exit_code": done.returncode, "left_behind": len(left)}


def lines() -> Callable[[dict[str, Any]], None]:
    """Return what writes a line to stdout, which is closed to everybody else: Ray reports there."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def emit(record: dict[str, Any]) -> None:
        stream.write(json.dumps(record) + "\n")
        stream.flush()

    return emit


def is_wrong(record: dict[str, Any]) -> bool:
    """Whether something happened that must not."""
    if record.get("left_behind") or record.get("wrong") or record.get("unanswered"):
        return True
    if record.get("fault") == "gcs":
        return bool(record["exit_code"])
    return bool(record.get("lost"))


def main() -> int:
    """Run the benchmark; return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--executor", choices=["ray", "threads"], default="ray")
    parser.add_argument("--sessions", type=int, default=10, help="of five faults each")
    parser.add_argument("--gcs", type=int, default=0, help="drivers that lose their cluster's GCS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first session")
    parser.add_argument("--minutes", type=float, default=50.0, help="no session begins later")
    parser.add_argument("--as-driver", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    write = lines()
    records: list[dict[str, Any]] = []

    def emit(record: dict[str, Any]) -> None:
        records.append(record)
        write(record)

    ends = time.monotonic() + 60.0 * options.minutes
    numbers = range(options.first, options.first + options.sessions)
    started = descendants(os.getpid())
    with tempfile.TemporaryDirectory(prefix="hetsim-") as folder:
        plan = plan_of(model_file(Path(folder)))
        assert plan.problem.model is not None
        with staged(plan.problem.model) as model:
            wanted = [run_whole(model, random_inputs(model, seed)) for seed in range(REQUESTS)]
        nodes = (
            Nodes()
            if options.executor == "ray" and (numbers or options.as_driver is not None)
            else None
        )
        try:
            address = None if nodes is None else nodes.address
            if options.as_driver is not None:
                rng = np.random.default_rng((options.seed, options.as_driver))
                span_s = calm_s(plan, "ray", address)
                with hetsim.Session(
                    plan, "ray", address=address, timeout_s=DEADLINE_S, hang_s=HANG_S["ray"]
                ) as session:
                    at_s = float(rng.uniform(0, span_s))
                    write(under_fire(session, nodes, wanted, "gcs", DEVICES[0], at_s))
                return 0
            if numbers:
                span_s = calm_s(plan, options.executor, address)
                write({"calm_s": round(span_s, 3), "requests": REQUESTS})
            for number in numbers:
                if time.monotonic() > ends:
                    break
                one_session(
                    number, options.executor, plan, nodes, wanted, span_s, options.seed, emit
                )
        finally:
            if nodes is not None:
                import ray

                below = descendants(os.getpid())
                ray.shutdown()
                nodes.close()
                end_all([process for process in below if process not in started], 10.0)
    for number in range(options.first, options.first + options.gcs):
        if time.monotonic() > ends:
            break
        emit(without_control(number, options.seed))
    summary = summed(records, options.executor)
    summary["processes_left"] = len([p for p in descendants(os.getpid()) if p not in started])
    write(summary)
    return 1 if summary["failed"] or summary["processes_left"] else 0


def summed(records: list[dict[str, Any]], executor: str) -> dict[str, Any]:
    """Return all faults in sum."""
    faults = [record for record in records if "fault" in record]
    spent = [entry["s"] for record in faults for entry in record.get("recoveries", ())]
    return {
        "executor": executor,
        "faults": dict(Counter(record["fault"] for record in faults if record.get("struck", True))),
        "requests": {
            end: sum(record[end] for record in faults)
            for end in ("right", "wrong", "lost", "unanswered")
        },
        "left_behind": sum(record.get("left_behind", 0) for record in records),
        "failed": sum(map(is_wrong, records)),
        "recoveries": len(spent),
        "recovery_median_s": round(statistics.median(spent), 3) if spent else None,
        "recovery_max_s": round(max(spent), 3) if spent else None,
    }


if __name__ == "__main__":
    sys.exit(main())
