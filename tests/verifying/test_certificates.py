"""True certificates hold; what is no certificate is said to be none, in bounded time and memory."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from itertools import product
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from certificates import Maker
from hetsim.verifying import Broken, Untrue, checking, node, verify
from hetsim.verifying import __main__ as program
from hetsim.verifying.checking import allowed
from hetsim.verifying.node import read
from hetsim.verifying.question import Question, question_of
from sweeps import sweep


def left(certificate: Any, folder: Path) -> Path:
    path = folder / "certificate.json"
    path.write_text(json.dumps(certificate))
    return path


@sweep("seed", quick=[0, 11, 108], full=range(400))
def test_true_ones_hold(seed: int, tmp_path: Path) -> None:
    certificate = Maker(seed).certificate()
    held = verify(left(certificate, tmp_path))
    assert held.before >= held.tried + held.undecided
    assert held.runs == len(certificate["runs"])


@sweep("seed", quick=[0], full=range(200))
def test_true_ones_of_plans_on_several_devices_hold(seed: int, tmp_path: Path) -> None:
    verify(left(Maker(seed, split=True).certificate(), tmp_path))


@sweep("seed", quick=[2], full=range(40))
def test_true_ones_of_drawn_arrivals_hold(seed: int, tmp_path: Path) -> None:
    verify(left(Maker(seed, sampled=True).certificate(), tmp_path))


def test_a_verdict_that_several_policies_come_to_may_be_wrong_once(tmp_path: Path) -> None:
    certificate = Maker(9, sampled=True).certificate()
    policies, runs = certificate["question"]["policies"], certificate["runs"]
    certificate["question"]["error"] = sum(
        max((row[5] for row in run["judged"] if row[4] != "undecided"), default=0.0) for run in runs
    )
    # One instance of each model: the other routing, by another name, is the same deployment.
    one = next(
        run for run in runs
        if all(len(mine) == 1 for mine in run["instances"]) and run["judged"][0][4] != "undecided"
    )  # fmt: skip
    # Of several instances it is where they are routed alike.
    two = next(run for run in runs if any(len(mine) > 1 for mine in run["instances"]))
    runs += [one | {"policy": 2}, two | {"policy": 3}]
    policies.append(policies[one["policy"]] | {"placement": "suited", "routing": "round_robin"})
    policies.append(policies[two["policy"]] | {"placement": "suited"})
    assert verify(left(certificate, tmp_path)).runs == len(runs)
    # A queue that nobody fills is another deployment all the same.
    for policy in policies[2:]:
        policy["max_queue_size"] = 10**6
        with pytest.raises(Untrue, match="may be wrong by"):
            verify(left(certificate, tmp_path))
        policy["max_queue_size"] = None


def test_it_is_a_program_of_its_own(tmp_path: Path) -> None:
    path = left(Maker(2).certificate(), tmp_path)
    code = (
        "import runpy, sys\nsys.argv = ['verify', sys.argv[1]]\n"
        "try: runpy.run_module('hetsim.verifying', run_name='__main__')\n"
        "finally: print(sorted(m for m in sys.modules if m.partition('.')[0] in "
        "('hetsim', 'onnx', 'onnxruntime', 'ray', 'numba', 'pydantic', 'click')))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 0
    first, *lines, second = told.stdout.splitlines()
    assert first.startswith("certificate holds")
    assert {line.split("  ")[0] for line in lines} == {"verified", "on trust"}
    names = eval(second)
    # The face of the package, which is light, says its version.
    names = [name for name in names if name not in ("hetsim", "hetsim.version")]
    assert all(name.startswith("hetsim.verifying") for name in names)


@pytest.mark.parametrize("times", [1 / 10, 1 / 3, 3, 10])
def test_rates_that_are_not_those_of_the_arrivals_are_refused(tmp_path: Path, times: float) -> None:
    certificate = Maker(3, sampled=True).certificate()
    held = verify(left(certificate, tmp_path))
    (stream, *_) = held.checked
    rate = sum(one["rate_per_s"] for one in certificate["question"]["asks"] if not one["stream"])
    assert f"{rate:.6g} requests a second" in stream
    for one in certificate["question"]["asks"]:
        one["rate_per_s"] *= times
    with pytest.raises(Untrue, match=r"rate_per_s: .* a second, and the .* arrivals come at"):
        verify(left(certificate, tmp_path))


def test_what_is_changed_is_refused_or_told(tmp_path: Path) -> None:
    """Ten ways to tamper with a drawn certificate."""
    whole = json.dumps(Maker(3, sampled=True).certificate())

    def after(change: Callable[[Any], None]) -> str:
        certificate = json.loads(whole)
        change(certificate)
        try:
            return verify(left(certificate, tmp_path)).report()
        except (Untrue, Broken) as refused:
            return f"refused: {refused}"

    def asked(certificate: Any) -> Any:
        return certificate["question"]

    def objective(certificate: Any) -> None:
        asked(certificate)["streams"][0]["slos"][0][1] *= 1.5

    def share(certificate: Any) -> None:
        asked(certificate)["streams"][0]["slos"][0][0] = 0.123

    def price(certificate: Any) -> None:
        asked(certificate)["kinds"][0]["cost"] += 1

    def policy(certificate: Any) -> None:
        asked(certificate)["policies"][0]["max_batch"] += 5

    def policy_name(certificate: Any) -> None:
        asked(certificate)["policies"][0]["name"] = "another policy"

    def model_name(certificate: Any) -> None:
        asked(certificate)["models"][0]["name"] = "another model"

    def digest(certificate: Any) -> None:
        certificate["made_of"]["files"] = dict.fromkeys(certificate["made_of"]["files"], "f" * 64)

    def requests(certificate: Any) -> None:
        certificate["arrivals"]["requests"] -= 1

    def counts(certificate: Any) -> None:
        certificate["answer"]["counts"][0] += 1

    def error(certificate: Any) -> None:
        asked(certificate)["error"] = 0.4

    for change, told in (
        (price, "refused"), (requests, "refused"), (counts, "refused"), (policy, "refused"),
        (policy_name, "verified  policies played: another policy"),
        (model_name, "verified  stream "),
        (digest, "digests were not compared"),
        (error, "verdicts may be wrong by 0.4 together"),
    ):  # fmt: skip
        said = after(change)
        assert told in said, (change.__name__, said)
    assert "another model" in after(model_name)
    limit_ms = 1500 * json.loads(whole)["question"]["streams"][0]["slos"][0][1]
    for change, told in ((objective, f"within {limit_ms:.10g} ms"), (share, "12.3 % within")):
        said = after(change)
        assert said.startswith("refused") or told in said, said


def test_it_takes_memory_for_what_there_is_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(left({"certificate": "x"}, tmp_path))
    monkeypatch.setattr(node, "PIECE_BYTES", 7)
    for most, length in ((2**60, 20), (20, 20)):  # the first more than any machine has
        monkeypatch.setattr(node, "MOST_BYTES", most)
        assert read(path).value == {"certificate": "x"}
        assert Path(path).stat().st_size == length
    monkeypatch.setattr(node, "MOST_BYTES", 19)
    with pytest.raises(Broken, match="more than"):
        read(path)

    def short(_: str) -> None:
        raise MemoryError

    monkeypatch.setattr(program, "verify", short)
    assert program.main([path]) == 1
    assert capsys.readouterr().err == f"{path}: the memory is used up\n"


def question(tmp_path: Path, **changed: Any) -> Question:
    certificate = Maker(2).certificate()
    certificate["question"] |= changed
    return question_of(read(str(left(certificate, tmp_path))))


def kind(most: int, counts: int = 1) -> Any:
    price = {"usd_per_hour": "0.1"}
    return {"name": "kind", "devices": [0], "links": 0, "counts": counts, "most": most,
            "price": price, "cost": 10**8}  # fmt: skip


def test_vectors_are_those_that_could_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [{"of": [1, 1, -2, 0], "at_least": -2, "at_most": 1}]
    kinds = [kind(3), kind(0), kind(4, 2), kind(2, 0)]
    asked = question(tmp_path, kinds=kinds, limits=limits, max_devices=5)
    each = product(*(range(one["most"] + 1) for one in kinds))
    found = np.concatenate(list(allowed(asked))).tolist()
    assert sorted(found) == [list(one) for one in each if asked.allows(list(one))]
    # Of ten kinds with eight of each there are 3.5 billion, but few with eight devices in all.
    many = question(tmp_path, kinds=[kind(8)] * 10, limits=[], max_devices=8)
    assert sum(map(len, allowed(many))) == comb(18, 8)
    monkeypatch.setattr(checking, "MOST_VECTORS", 50_000)
    with pytest.raises(Broken, match="more than 50000 vectors"):
        list(allowed(many))


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    certificate = Maker(2).certificate()
    bomb = base64.b64encode(zlib.compress(bytes(1 << 26), 9)).decode()
    certificate["arrivals"]["time_s"] = bomb
    with pytest.raises(Broken, match="/arrivals/time_s: not"):
        verify(left(certificate, tmp_path))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "nested too deep"),
        ("null", "no object"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a": NaN}', "NaN is no number"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "no JSON"),
        ("\xff", "no JSON"),
        ("{}", "has no 'certificate'"),
        ('{"a\\nb": 1}', "has no 'certificate'"),
    ],
)
def test_what_is_no_certificate_is_said_to_be_none(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(Broken, match=says):
        verify(path)


def test_what_is_short_and_means_much_is_refused(tmp_path: Path) -> None:
    certificate = Maker(2).certificate()
    # One task of many, named a million times.
    certificate["templates"][0]["tasks"] = [[0, 1.0, [], []]] * 20_000
    certificate["runs"][0]["instances"] = [[certificate["runs"][0]["instances"][0][0]] * 20_000]
    with pytest.raises(Broken, match="task events"):
        verify(left(certificate, tmp_path))


def test_more_placements_than_can_be_looked_at_are_refused(tmp_path: Path) -> None:
    certificate = Maker(2).certificate()
    question, runs = certificate["question"], certificate["runs"]
    question["policies"].append(question["policies"][0] | {"placement": "each"})
    question["max_devices"], question["limits"] = 1000, []
    for one in question["kinds"]:
        one["most"] = 100
    counts = [100] * len(question["kinds"])
    certificate["tried"] = [{"counts": counts, "runs": []}]
    for policy, one in enumerate(question["policies"]):
        if one["placement"] != "each":
            certificate["tried"][0]["runs"].append(len(runs))
            runs.append({"counts": counts, "policy": policy, "none": "nobody knows"})
            one["placement"] = "on trust"
    with pytest.raises(Broken, match="too many placements"):
        verify(left(certificate, tmp_path))


def test_a_key_is_told_on_one_line(tmp_path: Path) -> None:
    certificate = Maker(2).certificate()
    certificate["question"]["a\nb" + "x" * 10_000] = 1
    with pytest.raises(Broken) as told:
        verify(left(certificate, tmp_path))
    assert len(str(told.value)) < 200
    assert "\n" not in str(told.value)


WRONG: list[Any] = [
    None, True, -1, 0, 1, 2, 10**6, 1 << 62, 10**30, -0.5, 0.5, 1e-300, 1e300, "", "x", [], [0], {}
]  # fmt: skip


@sweep("seed", quick=[0], full=range(60))
def test_anything_in_any_place_is_told_in_one_line(seed: int, tmp_path: Path) -> None:
    text = json.dumps(Maker(seed, split=seed % 2 == 1).certificate())
    rng = np.random.default_rng([seed, 99])
    everywhere = places(json.loads(text))
    held = 0
    for _ in range(60):
        given = json.loads(text)
        *above, last = everywhere[rng.integers(len(everywhere))]
        at = given
        for key in above:
            at = at[key]
        how = rng.integers(3)
        if how == 0:
            del at[last]
        elif how == 1 and isinstance(at, list):
            at.insert(last, at[last])
        else:
            at[last] = WRONG[rng.integers(len(WRONG))]
        told = said(left(given, tmp_path))
        assert told.startswith(("/", "certificate holds"))
        assert "\n" not in told
        held += not told.startswith("/")
    assert held < 20


def said(path: Path) -> str:
    try:
        return str(verify(path))
    except (Broken, Untrue) as told:
        return str(told)


def places(value: Any, where: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Of everything in a certificate."""
    found = [where] if where else []
    inside = value.items() if isinstance(value, dict) else []
    inside = enumerate(value) if isinstance(value, list) else inside
    for key, each in inside:
        found += places(each, (*where, key))
    return found
