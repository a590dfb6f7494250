"""A saved plan's entries, each of its type, and whose an error is that they lead to."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import hetsim
from custom_op_builders import bodies, other, user
from hetsim.errors import (
    HetsimError,
    InvalidInput,
    NotInstalled,
    PlanError,
    PluginError,
    UsageError,
)
from hetsim.problem import saved
from onnx_builders import make_model, op, save, value

Record = dict[str, Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Text of a plan of a small model on the laptop."""
    proto = make_model([op("Neg", "x", "a"), op("Exp", "a", "y")], [value("x")], [value("y")])
    path = save(proto, tmp_path_factory.mktemp("plan"), "user.onnx")
    problem = hetsim.Problem.of(hetsim.load_model(path), hetsim.load_platform("laptop"))
    return hetsim.plan(problem, "single:cpu").to_json()


def written(whole: str, folder: Path, **changes: Any) -> Path:
    """The plan with other entries; of those that are records other fields, None for none."""
    record = json.loads(whole)
    for key, entry in changes.items():
        known = record.get(key)
        if isinstance(known, dict) and isinstance(entry, dict):
            entry = {k: v for k, v in {**known, **entry}.items() if v is not None}
        record[key] = entry
    path = folder / "plan.json"
    path.write_text(json.dumps(record))
    return path


@pytest.mark.parametrize(
    ("entry", "other"),
    [
        *(("model", {key: None}) for key in ("source", "sha256", "canonical", "dims", "shapes")),
        ("model", "user.onnx"),
        ("model", {"freeze": 3}),
        ("model", {"freeze": {"x": 3}}),
        ("model", {"observed": 3}),
        ("model", {"shapes": {"x": [2, True]}}),
        ("model", {"extensions": "ab"}),
        ("platform", "laptop"),
        ("platform", {"source": None}),
        ("platform", {"sha256": None}),
        ("platform", {"what_if": "npu.speed x2"}),
        ("platform", {"what_if": [3]}),
        ("platform", {"without": "npu"}),
        ("platform", {"without": ["npu", 3]}),
        ("execute", []),
        ("execute", {"cpu": 3}),
        ("execute", {"cpu": "float32", "npu": False}),
        ("cost", None),
        ("pessimistic", 1),
        ("pessimistic", "true"),
        ("profiles", []),
        ("profiles", {"npu": 1}),
        ("profiles", {"npu": {"source": 1, "sha256": "x"}}),
        ("model", {"dims": {"n": True}}),
        ("model", {"canonical": 1}),
        ("model", {"extensions": [["a.onnx"]]}),
    ],
)
def test_entries_that_are_not_as_hetsim_writes_them(
    whole: str, tmp_path: Path, entry: str, other: object
) -> None:
    path = written(whole, tmp_path, **{entry: other})
    said = f"{path}: the plan's {entry} entry lacks fields or has some of the wrong type; use a"
    with pytest.raises(PlanError, match=f"^{re.escape(said)}"):
        hetsim.load_plan(path)


@pytest.mark.parametrize("entry", ["model", "platform"])
def test_a_plan_of_arrays_is_read_with_its_problem(whole: str, tmp_path: Path, entry: str) -> None:
    path = written(whole, tmp_path, **{entry: None})
    with pytest.raises(PlanError, match="it names no model or platform; pass the problem it was"):
        hetsim.load_plan(path)


@pytest.mark.parametrize("what", ["model", "platform"])
def test_what_changed_is_named(whole: str, tmp_path: Path, what: str) -> None:
    path = written(whole, tmp_path, **{what: {"sha256": "0" * 64}})
    with pytest.raises(PlanError, match=f"the {what} changed since the plan was made; plan again"):
        hetsim.load_plan(path)


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (InvalidInput("it is odd"), "its platform: it is odd"),
        (InvalidInput("it is odd", hint="mend it"), "its platform: it is odd; mend it"),
        (InvalidInput("it is odd", where="its.yaml:3"), None),
        (InvalidInput("no such file", where="/its.yaml", missing=True), None),
        (InvalidInput("cannot be read: not a regular file", where="its.yaml"), None),
        (
            InvalidInput("no such file", where="its.yaml", hint="mend it", missing=True),
            "its platform: its.yaml: no such file; its paths are relative to the folder where "
            "it was made: run hetsim there",
        ),
        (UsageError("no such name"), "its platform: no such name"),
        (UsageError("no such name", where="laptop"), "its platform: laptop: no such name"),
        (NotInstalled("it needs numba"), None),
        (NotInstalled("it needs numba", where="here"), None),
        (PluginError("it cannot be used"), None),
    ],
)
def test_an_error_is_of_the_plan_where_it_names_no_other_file(
    whole: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: HetsimError,
    said: str | None,
) -> None:  # fmt: skip
    """And not where a package is to blame, whose errors stay what they are."""

    def fails(source: str) -> None:
        raise raised

    monkeypatch.setattr(saved, "load_platform", fails)
    path = written(whole, tmp_path)
    with pytest.raises(HetsimError) as caught:
        hetsim.load_plan(path)
    if said is None:
        assert caught.value is raised
    else:
        assert type(caught.value) is PlanError
        assert str(caught.value) == f"{path}: {said}"


def test_the_question_is_asked_as_it_was(whole: str, tmp_path: Path) -> None:
    """With what is supposed, left out, executed as if, the bad end, and the links' behaviour."""
    model = hetsim.load_plan(written(whole, tmp_path)).problem.model
    assert model is not None
    platform = hetsim.what_if(hetsim.load_platform("laptop"), "npu.speed x2", without=["gpu"])
    problem = hetsim.Problem.of(
        model, platform, contention="none", execute={"npu": "int8"}, pessimistic=True
    )
    plan = hetsim.plan(problem, "single:cpu")
    plan.save(tmp_path / "plan.json")
    again = hetsim.load_plan(tmp_path / "plan.json")
    assert again.to_json() == plan.to_json()
    asked = again.problem
    assert (asked.fingerprint, asked.pessimistic, asked.contention) == (
        problem.fingerprint, True, "none",
    )  # fmt: skip
    assert asked.executed == {"npu": "int8"}
    assert "gpu" not in asked.devices


@pytest.mark.parametrize(
    ("stated", "named"),
    [
        ({"extensions": ["lib.so", "bodies.onnx", "lib.so=bodies.onnx", 7]},
         ("lib.so", "lib.so=bodies.onnx", "7")),
        ({"extensions": "lib.so"}, ()),
        ({}, ()),
        (["lib.so"], ()),
        (None, ()),
    ],
)  # fmt: skip
def test_libraries_are_told_from_bodies(stated: object, named: tuple[str, ...]) -> None:
    assert saved.named_libraries(stated) == named


def test_files_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(PlanError, match=r"plan\.json: cannot read: not a text file; use a saved"):
        hetsim.load_plan(tmp_path / "plan.json")


def test_bodies_are_those_that_the_plan_names_and_no_others(tmp_path: Path) -> None:
    """Read where the plan says, or given again; one that it was made without is refused by name."""
    held = str(bodies(tmp_path))
    node = make_model([op("Identity", "x", "y")], [value("x")], [value("y")], functions=[other()])
    strange = str(save(node, tmp_path, "strange.onnx"))
    model = hetsim.load_model(user(tmp_path), extensions=[held])
    problem = hetsim.Problem.of(model, hetsim.load_platform("laptop"))
    plan = hetsim.plan(problem, "single:cpu")
    plan.save(tmp_path / "plan.json")
    for given in ([], [held]):
        assert hetsim.load_plan(tmp_path / "plan.json", extensions=given).groups == plan.groups
    for given in ([strange], [held, strange], [strange, held]):
        said = rf"it was made without '{re.escape(strange)}'; omit that extension"
        with pytest.raises(PlanError, match=said):
            hetsim.load_plan(tmp_path / "plan.json", extensions=given)
