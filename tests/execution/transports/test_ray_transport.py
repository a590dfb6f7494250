"""What only Ray can do to a run: actors that die, machines that lack the weights, placement."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.external_data_helper import convert_model_to_external_data

import hetsim
from execution.conftest import BRANCHES, Cut
from hetsim.errors import DeviceLost
from hetsim.execution import weights as node_weights
from hetsim.execution.program import assemble
from hetsim.execution.run import run
from hetsim.execution.session import execute
from hetsim.execution.transports import ray_actor as ray_loading
from hetsim.execution.transports.processes import Process, command_line, descendants
from hetsim.execution.transports.ray_connection import RayConnection
from hetsim.execution.weights import Extent, Shipments, staged
from hetsim.graph.inputs.samples import random_inputs
from onnx_builders import assert_bitwise_equal, make_model, op, run_whole, value
from sweeps import sweep


def actors() -> list[Process]:
    return [p for p in descendants(os.getpid()) if "DeviceActor" in command_line(p)]


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_devices_get_as_much_of_a_processor_as_who_asks_for_them(
    cut: Cut, diamond: onnx.ModelProto, ray_connection: RayConnection
) -> None:
    with hetsim.Session(cut(diamond, [("gpu", range(6))]), "ray") as session:
        nice = {os.getpriority(os.PRIO_PROCESS, pid) for pid in session.processes().values()}
    assert nice == {os.getpriority(os.PRIO_PROCESS, 0)}


@pytest.mark.slow
def test_a_request_with_which_its_device_dies_every_time_has_failed(
    cut: Cut, endless: onnx.ModelProto, ray_connection: RayConnection
) -> None:
    plan = cut(endless, [("cpu", [0]), ("gpu", [1]), ("cpu", [2])])
    with hetsim.Session(plan, "ray") as session:
        request = session.run_async(timeout_s=500)
        killed: set[int] = set()
        while len(killed) < 3:
            found = wait_for(lambda: session.processes().get("gpu"))
            if found not in killed:
                os.kill(found, signal.SIGKILL)
                killed.add(found)
        with pytest.raises(DeviceLost, match="died") as caught:
            request.result(120)
    assert caught.value.where == "device 'gpu'"
    wait_for(lambda: not actors())


@sweep("away", quick=["gpu"], full=["gpu", "cpu npu", "cpu gpu npu"])
def test_devices_on_this_machine_and_on_others_share_a_run(
    cut: Cut, ray_connection: RayConnection, monkeypatch: pytest.MonkeyPatch, away: str
) -> None:
    """Those that are `away` do not come to a meeting: to them all goes by Ray."""
    proto = make_model(
        [op("Neg", "x", "a"), op("Sin", "a", "b"), op("Add", "a b", "c"), op("Add", "b c", "y"),
         op("ReduceSum", "y", "s", keepdims=0), op("Mul", "s x", "z")],
        [value("x", (40_000,))],
        [value(name, ()) if name == "s" else value(name, (40_000,)) for name in "zbs"],
    )  # fmt: skip
    plan = cut(proto, [("cpu", [0]), ("gpu", [1]), ("npu", [2]), ("gpu", [3]), ("cpu", [4]),
                       ("npu", [5])])  # fmt: skip
    model = plan.problem.model
    assert model is not None
    joined: list[tuple[str, bool]] = []

    def join(device: str, *given: Any) -> Any:
        channel = None if device in away.split() else ray_loading.join(device, *given)
        joined.append((device, channel is not None))
        return channel

    monkeypatch.setattr("hetsim.execution.transports.ray_transport.join", join)
    x = np.random.default_rng(3).standard_normal((9, 40_000)).astype(np.float32)
    with hetsim.Session(plan, "ray") as session:
        requests = [session.run_async({"x": row}) for row in x[:6]]
        if away != "cpu gpu npu":
            requests[0].result()
            os.kill(session.processes()["cpu"], signal.SIGKILL)
        requests += [session.run_async({"x": row}) for row in x[6:]]
        for row, request in zip(x, requests, strict=True):
            assert_bitwise_equal(request.result(120), run_whole(model, {"x": row}))
    assert set(joined) == {(name, name not in away.split()) for name in ("cpu", "gpu", "npu")}


def test_no_actor_outlives_its_run(ran_on_ray: Any) -> None:
    assert ran_on_ray.run.bitwise_equal is True
    wait_for(lambda: not actors())


@pytest.fixture
def other_machines(ray_connection: RayConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Ray that is there, taken for one on several machines."""

    @contextmanager
    def shared(*arguments: Any, **options: Any) -> Iterator[RayConnection]:
        yield RayConnection(private=False)

    monkeypatch.setattr("hetsim.execution.transports.ray_connection.ray_connection", shared)


@sweep("kind", quick=["external"], full=["external", "spilled"])
def test_machines_that_do_not_see_the_weights_are_sent_them(
    cut: Cut,
    diamond: onnx.ModelProto,
    other_machines: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    kind: str,
) -> None:
    diamond.graph.node[2].input[1] = "w0"
    if kind == "external":
        convert_model_to_external_data(diamond, location="w.bin", size_threshold=0)
        onnx.save(diamond, tmp_path / "saved.onnx")
    plan = cut(diamond, BRANCHES)
    model = plan.problem.model
    assert model is not None
    inputs = random_inputs(model)
    expected = run(plan, inputs, executor="threads").outputs
    true_facts = ray_loading.file_facts

    def of_another_file(folder: str, locations: Sequence[str]) -> Any:
        facts = true_facts(folder, locations)
        assert None not in facts.values()
        return {name: (size, changed + 1) for name, (size, changed) in facts.items()}  # type: ignore[misc]

    monkeypatch.setattr(ray_loading, "file_facts", of_another_file)
    monkeypatch.setattr(node_weights, "CHUNK_BYTES", 5000)
    sent: list[Extent] = []
    folders: list[str] = []
    send, place = node_weights._send, Shipments.place

    def noted(store: Any, weights_dir: Path, extent: Extent, wait: Any) -> None:
        sent.append(extent)
        send(store, weights_dir, extent, wait)

    def placed(*arguments: Any) -> str:
        folders.append(place(*arguments))
        return folders[-1]

    monkeypatch.setattr(node_weights, "_send", noted)
    monkeypatch.setattr(Shipments, "place", placed)
    with staged(model) as inside:
        program = assemble(plan, inside)
        assert [len(program.extents(device)) for device in ("cpu", "gpu", "npu")] == [2, 0, 1]
        both = set(program.extents("cpu")) & set(program.extents("npu"))
        assert len(both) == 1
        outputs, _, _ = execute(program, inputs, "ray", None, 60.0, 0)
        # Both devices are on one node: what both read goes there once.
        assert set(sent) == {*program.extents("cpu"), *program.extents("npu")}
        assert len(sent) == len(set(sent)) == 2
        assert len(folders) == 2
        assert len(set(folders)) == 1
        assert folders[0] != str(inside.weights_dir)
        assert not Path(folders[0]).exists()
    assert outputs.keys() == expected.keys()
    for name, array in expected.items():
        assert outputs[name].tobytes() == array.tobytes()
