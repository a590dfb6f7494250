"""A session in a forked child: an error at once, and the parent goes on whatever the child does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from builders import BOX

STORY = """
import json, os, sys, warnings
import hetsim
# Python itself warns of it: a child has none of the threads.
warnings.simplefilter("ignore", DeprecationWarning)
executor, box = sys.argv[1:]
def tell(about, **facts):
    # At once: children write side by side.
    os.write(1, (json.dumps({"about": about, **facts}) + chr(10)).encode())
def error_of(work):
    try:
        work()
    except hetsim.HetsimError as error:
        return [type(error).__name__, error.what]
    return None
model = hetsim.load_model("zoo:squeezenet")
plan = hetsim.plan(hetsim.Problem.of(model, hetsim.load_platform(box)), "hetero:npu,dsp,cpu")
parent = os.getpid()
with hetsim.Session(plan, executor) as session:
    wanted = {name: array.tobytes() for name, array in session.run().items()}
    up = session.processes()
    request = session.run_async()
    children = []
    for leaves in (True, False):
        child = os.fork()
        if not child:
            tell("child", run=error_of(session.run), result=error_of(request.result),
                 inject=error_of(lambda: session.inject([hetsim.Failure("npu", 0.0)])))
            if leaves:
                break
            sys.exit(0)
        children.append(child)
    else:
        ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        same = {name: array.tobytes() for name, array in session.run().items()} == wanted
        request.result()
        tell("parent", ends=ends, same=same, up=session.processes() == up,
             recoveries=len(session.recoveries))
if os.getpid() != parent:
    session.close()
    tell("left", again=error_of(lambda: hetsim.run(plan, executor=executor, verify=False)))
"""


@pytest.mark.parametrize(
    "executor",
    ["threads", pytest.param("ray", marks=[pytest.mark.group("own_ray"), pytest.mark.sweep])],
)
def test_a_forked_child_neither_uses_a_session_nor_ends_it(executor: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STORY, executor, str(BOX)],
        env={**os.environ, "ORT_DISABLE_TELEMETRY": "1"},
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    told: dict[str, list[dict[str, Any]]] = {}
    for line in done.stdout.splitlines():
        facts = json.loads(line)
        told.setdefault(facts.pop("about"), []).append(facts)
    assert told["parent"] == [{"ends": [0, 0], "same": True, "up": True, "recoveries": 0}]
    assert len(told["child"]) == 2
    for child in told["child"]:
        for kind, what in (child["run"], child["inject"]):
            assert kind == "UsageError"
            assert what.startswith("the session was opened in process ")
        # It may have been done before.
        assert child["result"] is None or child["result"][0] == "UsageError"
    ((again,),) = ([left["again"]] for left in told["left"])
    assert (again is not None) == (executor == "ray")
    assert again is None or "cannot use it" in again[1]
