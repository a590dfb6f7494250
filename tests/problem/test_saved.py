"""What a saved plan or a compiled folder names is doubted: libraries, and what is no file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hetsim
from custom_op_builders import LIBRARY, bodies, user
from execution.compiled.test_compiled_plan import rewritten
from figure_builders import figured_card
from hetsim.analysis.what_if import faster_device
from hetsim.core.files import open_regular, read_regular
from hetsim.errors import InvalidInput, ModelError, PlanError, PlatformError
from hetsim.execution.compiled.run import open_compiled, run_compiled
from hetsim.execution.compiled.write import compile_plan
from onnx_builders import make_model, op, save, value
from profile_builders import trt_profile, unit_model, written

Record = dict[str, Any]


def plan_of(folder: Path, extensions: tuple[str, ...] = ()) -> hetsim.Plan:
    """A plan of a small model on a platform of its own, saved as plan.json."""
    if extensions:
        path = user(folder)
    else:
        proto = make_model([op("Neg", "x", "a"), op("Exp", "a", "y")], [value("x")], [value("y")])
        path = save(proto, folder, "user.onnx")
    model = hetsim.load_model(path, extensions=extensions)
    problem = hetsim.Problem.of(model, hetsim.load_platform("laptop"))
    plan = hetsim.plan(problem, "single:cpu")
    plan.save(folder / "plan.json")
    return plan


def change(path: Path, edit: Callable[[Record], Any]) -> None:
    record = json.loads(path.read_text())
    edit(record)
    path.write_text(json.dumps(record))


def loaded(library: Path) -> bool:
    """Whether this process has mapped a shared library."""
    return str(library.resolve()) in Path("/proc/self/maps").read_text()


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A library that is there, and works, under a name of its own."""
    return Path(shutil.copy(LIBRARY, tmp_path / "evil.so"))


@pytest.mark.parametrize("with_bodies", [False, True])
def test_a_plans_library_is_loaded_only_where_it_is_named_again(
    tmp_path: Path, evil: Path, with_bodies: bool
) -> None:
    plan_of(tmp_path)
    held = bodies(tmp_path)
    named = f"{evil}={held}" if with_bodies else str(evil)
    change(tmp_path / "plan.json", lambda r: r["model"].update(extensions=[named]))
    for others in ([], [held]):
        with pytest.raises(PlanError, match=r"needs the library .* only where you name it"):
            hetsim.load_plan(tmp_path / "plan.json", extensions=others)
    assert not loaded(evil)


def test_libraries_named_again_and_bodies_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = bodies(tmp_path)
    both = f"{LIBRARY}={held}"
    plan = plan_of(tmp_path, (both,))
    again = hetsim.load_plan(tmp_path / "plan.json", extensions=[both])
    assert again.groups == plan.groups
    # By another name of the same file.
    monkeypatch.chdir(tmp_path)
    again = hetsim.load_plan("plan.json", extensions=[f"{LIBRARY}=bodies.onnx"])
    assert again.groups == plan.groups
    (tmp_path / "plan.json").unlink()
    plan_of(tmp_path, (str(held),))
    for extensions in ((), (held,)):
        model = hetsim.load_plan(tmp_path / "plan.json", extensions=extensions).problem.model
        assert model is not None
        assert model.libraries == ()
    with pytest.raises(PlanError, match="it was made without"):
        hetsim.load_plan(tmp_path / "plan.json", extensions=[LIBRARY])


@pytest.mark.parametrize("named", ["library", "library and bodies", "no text"])
def test_a_compiled_folder_that_names_a_library_is_refused(
    tmp_path: Path, evil: Path, named: str
) -> None:
    folder = tmp_path / "compiled"
    compile_plan(plan_of(tmp_path), folder)
    stated: Any = {
        "library": str(evil), "library and bodies": f"{evil}={bodies(tmp_path)}", "no text": 7,
    }[named]  # fmt: skip
    change(folder / "plan.json", lambda r: r["model"].update(extensions=[stated]))
    text = (folder / "plan.json").read_bytes()
    retold(folder, text)
    with pytest.raises(InvalidInput, match="names the library"):
        open_compiled(folder)
    assert not loaded(evil)


def retold(folder: Path, plan: bytes) -> None:
    """Let the manifest say of the plan what is there now."""
    rewritten(
        folder,
        lambda r: r["plan"].update(nbytes=len(plan), sha256=hashlib.sha256(plan).hexdigest()),
    )


def odd_files(folder: Path) -> dict[str, str]:
    """Paths of what is no file to read, by what it is."""
    os.mkfifo(folder / "pipe.onnx")
    os.mkfifo(folder / "pipe.yaml")
    (folder / "link.onnx").symlink_to("/dev/zero")
    (folder / "link.yaml").symlink_to("/dev/zero")
    (folder / "folder.onnx").mkdir()
    (folder / "folder.yaml").mkdir()
    return {
        "device": "/dev/zero", "pipe": str(folder / "pipe"),
        "link to a device": str(folder / "link"),
        "folder": str(folder / "folder"), "null byte": "a\0b", "nothing": str(folder / "absent"),
        "long name": "1" * 300,
    }  # fmt: skip


ODD = ("device", "pipe", "link to a device", "folder", "null byte", "nothing", "long name")


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("entry", ["model", "platform", "extension"])
def test_what_a_plan_names_is_a_file_or_refused(tmp_path: Path, what: str, entry: str) -> None:
    # What is no file never ends, or keeps its reader waiting: that this returns is the test.
    plan_of(tmp_path)
    source = odd_files(tmp_path)[what]
    if what != "device":
        source += ".yaml" if entry == "platform" else ".onnx"
    elif entry == "extension":
        source = os.path.relpath(tmp_path / "link.onnx")
    if entry == "extension":
        change(tmp_path / "plan.json", lambda r: r["model"].update(extensions=[source]))
    else:
        change(tmp_path / "plan.json", lambda r: r[entry].update(source=source))
    # What no path can be, and a relative path without a file, is said of the plan.
    kind = PlatformError if entry == "platform" else ModelError
    with pytest.raises(PlanError if what in ("null byte", "long name") else kind):
        hetsim.load_plan(tmp_path / "plan.json")


@pytest.mark.parametrize("what", ODD)
def test_what_a_folder_names_for_comparison_is_a_file_or_left_alone(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hetsim.execution.compiled.run._open_in_child", lambda *_: None)
    folder = tmp_path / "compiled"
    compile_plan(plan_of(tmp_path), folder)
    source = odd_files(tmp_path)[what] + ("" if what == "device" else ".onnx")
    change(folder / "plan.json", lambda r: r["model"].update(source=source))
    retold(folder, (folder / "plan.json").read_bytes())
    x = np.ones((2, 3), np.float32)
    done = run_compiled(open_compiled(folder), {"x": x}, executor="threads")
    assert done.bitwise_equal is None
    assert "no whole model to compare with" in str(done.not_compared)
    np.testing.assert_allclose(done.outputs["y"], np.exp(-x), rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"contention": "fkfo"}, "its problem: unknown contention 'fkfo'"),
        ({"execute": {"cpu": "x"}}, "its problem: device 'cpu': models cannot be executed in 'x'"),
        ({"execute": {"tpu": "float16"}}, "its problem: no device 'tpu'"),
        ({"platform": {"what_if": ["nonsense"]}}, "its platform: what if 'nonsense': "),
        ({"platform": {"without": ["tpu"]}}, "its platform: without 'tpu': no device"),
        ({"platform": {"without": ["cpu"]}}, "its platform: without 'cpu': .* the host"),
        ({"model": {"dims": {"n": 3}}}, "its model: .*no input has a dimension named 'n'"),
    ],
)
def test_what_there_is_not_is_a_mistake_of_the_plan(
    tmp_path: Path, changes: Record, said: str
) -> None:
    plan_of(tmp_path)

    def put(record: Record) -> None:
        for key, entry in changes.items():
            known = isinstance(record.get(key), dict)
            record[key] = {**record[key], **entry} if known else entry

    change(tmp_path / "plan.json", put)
    with pytest.raises(PlanError, match=f"plan.json: {said}"):
        hetsim.load_plan(tmp_path / "plan.json")


def test_a_plan_says_which_profiles_its_prices_are_from(tmp_path: Path) -> None:
    model = hetsim.load_model(save(unit_model(), tmp_path, "unit.onnx"))
    profile = written(tmp_path, trt_profile({"conv1 + relu1": 0.5, "head": 0.25}))
    platform = hetsim.load_platform("laptop")
    problem = hetsim.Problem.of(model, platform, profiles={"npu": profile})
    plan = hetsim.plan(problem, "heft")
    plan.save(tmp_path / "plan.json")
    entry = json.loads(plan.to_json())["profiles"]["npu"]
    assert entry["sha256"] == hashlib.sha256(profile.read_bytes()).hexdigest()
    assert entry["measured_share"] == problem.profiles["npu"].share
    again = hetsim.load_plan(tmp_path / "plan.json")
    assert again.problem.profiles == problem.profiles
    assert again.to_json() == plan.to_json()
    assert "profiles" not in hetsim.plan(hetsim.Problem.of(model, platform), "heft").to_json()
    change(tmp_path / "plan.json", lambda r: r.update(profiles={"npu.0": entry}))
    with pytest.raises(PlanError, match=r"plan\.json: its problem: no device 'npu\.0'"):
        hetsim.load_plan(tmp_path / "plan.json")
    plan.save(tmp_path / "plan.json")
    # Better hardware is asked of the same measurements.
    assert faster_device(problem, 2).profiles == problem.profiles
    profile.write_text(profile.read_text().replace("0.25", "0.26"))
    with pytest.raises(PlanError, match="the profile of npu changed"):
        hetsim.load_plan(tmp_path / "plan.json")


def test_regular_files_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    assert read_regular(tmp_path / "link") == b"abc"
    assert read_regular(tmp_path / "file", 3) == b"abc"
    with pytest.raises(OSError, match="larger than 2 bytes"):
        read_regular(tmp_path / "file", 2)
    with pytest.raises(OSError, match="symbolic link"):
        open_regular(tmp_path / "link", follow=False)
    for path in (tmp_path / "pipe", tmp_path, "/dev/null"):
        with pytest.raises(OSError, match="regular file"):
            open_regular(path)


@pytest.mark.parametrize("cost", ["fitted", "roofline"])
def test_a_plan_keeps_the_cost_model_that_it_was_made_by(tmp_path: Path, cost: str) -> None:
    platform = hetsim.load_platform(figured_card(tmp_path))
    model = hetsim.load_model("zoo:squeezenet")
    problem = hetsim.Problem.of(model, platform, cost=cost)
    hetsim.plan(problem, "single:card").save(tmp_path / "plan.json")
    again = hetsim.load_plan(tmp_path / "plan.json").problem
    assert (again.cost, again.fingerprint) == (cost, problem.fingerprint)
    other = hetsim.Problem.of(model, platform, cost={"fitted": "roofline"}.get(cost, "fitted"))
    assert other.fingerprint != problem.fingerprint


def test_a_plan_is_refused_where_figures_changed_or_its_cost_model_is_none(tmp_path: Path) -> None:
    path = figured_card(tmp_path)
    problem = hetsim.Problem.of(
        hetsim.load_model("zoo:squeezenet"), hetsim.load_platform(path), cost="fitted"
    )
    plan = hetsim.plan(problem, "single:card")
    plan.save(tmp_path / "plan.json")
    for broken in (None, 3, ["fitted"]):
        change(tmp_path / "plan.json", lambda record, broken=broken: record.update(cost=broken))
        with pytest.raises(PlanError, match="cost entry"):
            hetsim.load_plan(tmp_path / "plan.json")
    change(tmp_path / "plan.json", lambda record: record.update(cost="fited"))
    with pytest.raises(PlanError, match=r"plan\.json: its problem: .*did you mean 'fitted'"):
        hetsim.load_plan(tmp_path / "plan.json")
    plan.save(tmp_path / "plan.json")
    path.write_text(path.read_text("utf-8").replace("overlap: 2.0", "overlap: 2.1"), "utf-8")
    with pytest.raises(PlanError, match="platform"):
        hetsim.load_plan(tmp_path / "plan.json")
