"""Models that no device takes whole are recommended split; what is played is what is simulated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import hetsim
from deployments import model_at, replayed
from hetsim.provisioning.platforms.answer import devices_of
from hetsim.provisioning.platforms.catalog_search import draft_of, question_of
from hetsim.provisioning.platforms.certificate import certificate
from hetsim.provisioning.platforms.components import deployment_of, platform_of
from hetsim.provisioning.platforms.policies import PlacedInstances, placed, policies_of
from hetsim.provisioning.platforms.question import (
    Arrivals,
    ClassRequests,
    DeviceSplit,
    DeviceType,
    Kind,
    Question,
    QuestionStream,
    RequestClass,
)
from hetsim.provisioning.platforms.search import Search
from hetsim.provisioning.platforms.simulation import play_given
from hetsim.provisioning.platforms.verification import verify
from hetsim.simulation.service.cost import ServicePrices
from hetsim.simulation.service.serving import serve
from hetsim.workload.workload import Slo
from onnx_builders import make_model, op, value
from random_questions import chain
from sweeps import sweep

DEVICE = """
kind: {kind}
full_name: A device of a test
peak_tflops: {{float32: {tflops}}}
memory_bandwidth_gbytes_s: 50.0
memory_gib: {memory}
launch_us: 5.0
dispatch_us: 0.0
streams: {streams}
idle_w: 1.0
busy_w: 5.0
efficiency: {{default: 1.0}}
memory_efficiency: 1.0
support: {{ops: [{ops}]}}
"""

FILES = {
    # Each holds one of the two weights, of a MiB, and not both.
    "small": DEVICE.format(kind="cpu", tflops=1.0, memory=0.0017, streams=1, ops="MatMul, Relu"),
    # Quick, and without the node in the middle.
    "quick": DEVICE.format(kind="npu", tflops=9.0, memory=1.0, streams=2, ops="MatMul"),
    "slow": DEVICE.format(kind="cpu", tflops=0.005, memory=1.0, streams=1, ops="MatMul, Relu"),
}

CATALOG = """
kinds:
  little: {platform: little.yaml, link: eth1, most: 3}
  board: {platform: board.yaml, link: eth1, most: 2}
  card: {device: quick.yaml, link: pcie3-x4, most: 2}
hosts:
  box: {platform: box.yaml, slots: 2}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("splits")
    for name, text in FILES.items():
        (made / f"{name}.yaml").write_text(text)
    (made / "little.yaml").write_text("host: cpu\ndevices: {cpu: ./small.yaml}\n")
    (made / "box.yaml").write_text("host: cpu\ndevices: {cpu: ./slow.yaml}\n")
    (made / "board.yaml").write_text(
        "host: cpu\ndevices: {cpu: ./slow.yaml, npu: ./quick.yaml}\n"
        "links: [{between: [cpu, npu], latency_us: 9, bandwidth_gbytes_s: 4, bus: memory}]\n"
    )
    (made / "catalog.yaml").write_text(CATALOG.replace(": quick", ": ./quick"))
    return made


@pytest.fixture(scope="module")
def workload(folder: Path) -> hetsim.Workload:
    """Bursts of three that come by chance; what answers one takes a part of a millisecond."""
    draw = np.random.default_rng(3)
    times = np.sort(np.repeat(np.cumsum(draw.exponential(8e-4, 20)), 3))
    return replayed(folder, model_at(folder, "n"), times, Slo(0.9, 6e-4))


@sweep("step", quick=[9], full=[9, 3])
def test_what_is_played_is_what_is_simulated(
    folder: Path, workload: hetsim.Workload, step: int
) -> None:
    draft = draft_of(
        workload, hetsim.load_catalog(folder / "catalog.yaml"),
        aim="devices", max_devices=4, terms=ServicePrices(),
    )  # fmt: skip
    question, components = question_of(draft), draft.components
    over = {devices_of(question, one) for one in question.splits}
    # On a board, on a host and its card, on two alike; the small ones cannot help the others.
    assert {("little-cpu.0", "little-cpu.1"), ("board-cpu.0", "board-npu.0")} <= over
    assert ("cpu", "card.0") in over
    seen: set[int] = set()
    late = 0
    for counts in ((0, 3, 0, 0), (0, 1, 1, 0), (1, 1, 1, 1)):
        platform = platform_of(question, components, counts)
        done = set()
        for policy in policies_of(question)[::step]:
            where = placed(question, counts, policy)
            if isinstance(where, str) or (where.instances, policy.max_batch) in done:
                continue
            done.add((where.instances, policy.max_batch))
            seen |= {one.split for mine in where.instances for one in mine}
            (said,) = play_given(question, where, policy).said
            service = serve(deployment_of(question, components, where, policy), workload, platform)
            assert said.late == service.streams[0].objectives[0].verdict.late.late
            late += said.late
    assert len(seen) > 3
    assert late


def test_what_no_device_takes_whole_is_recommended(
    folder: Path, workload: hetsim.Workload, tmp_path: Path
) -> None:
    (folder / "only.yaml").write_text("kinds:\n  little: {platform: ./little.yaml, link: eth1}\n")
    found = hetsim.recommend(workload, folder / "only.yaml", objective="devices", max_devices=4)
    question = found.found.question
    assert not question.ways
    assert found.plans.startswith("each model whole on one device, or split by ")
    assert found.require().counts["little"] >= 2
    path = tmp_path / "why.json"
    path.write_text(certificate(found.found))
    assert str(verify(path)).startswith("certificate holds")
    # With one device there is none.
    with pytest.raises(hetsim.errors.ObjectiveMissed, match="whole on one device no platform"):
        hetsim.recommend(
            workload, folder / "only.yaml", objective="devices", max_devices=1
        ).require()


def deep_at(folder: Path) -> str:
    """Three weights of a MiB one after another."""
    draw = np.random.default_rng(0)
    weights = {f"w{k}": draw.standard_normal((512, 512)).astype(np.float32) for k in range(3)}
    nodes = [op("MatMul", "x w0", "a"), op("MatMul", "a w1", "b"), op("MatMul", "b w2", "y")]
    path = folder / "deep.onnx"
    onnx.save(make_model(nodes, [value("x", (1, 512))], [value("y", (1, 512))], weights), path)
    return str(path)


def test_what_no_two_hold_is_recommended_over_three(folder: Path, tmp_path: Path) -> None:
    (folder / "only.yaml").write_text("kinds:\n  little: {platform: ./little.yaml, link: eth1}\n")
    times = np.arange(40) / 50
    workload = replayed(folder, deep_at(folder), times, Slo(0.9, 0.01), name="even")
    found = hetsim.recommend(workload, folder / "only.yaml", objective="devices", max_devices=4)
    best = found.require()
    assert best.counts == {"little": 3}
    assert {len(one.devices) for one in found.found.question.splits} == {3}
    path = tmp_path / "why.json"
    path.write_text(certificate(found.found))
    assert str(verify(path)).startswith("certificate holds")
    (objective,) = best.service.streams[0].objectives
    assert objective.verdict.late.late <= 4


def test_sets_that_carry_most_for_each_device_are_tried_first_too() -> None:
    pair, three = ([1.0, 0.9], [0.7, 0.7, 0.6])
    splits = tuple(
        DeviceSplit(0, "heft", (0,) * len(seconds), tuple((at, 0) for at in range(len(seconds))),
              {0: (chain(1, seconds, [0] * len(seconds), [0] * len(seconds), 0.0),)})
        for seconds in (three, pair)
    )  # fmt: skip
    question = Question(
        "devices",
        4,
        (DeviceType("d", 1, 1 << 30),),
        (Kind("d", (0,), 0, 1, 4),),
        ("m",),
        (RequestClass(0),),
        (QuestionStream("s", 0, (Slo(0.9, 10.0),)),),
        (ClassRequests(0, 0),),
        {},
        given=True,
        arrivals=Arrivals(np.arange(200.0) / 1.9, np.zeros(200, np.int64)),
        splits=splits,
    )
    found = Search(question).found()
    assert found.answer is not None
    # Two pairs carry two a second, three with one left over 1.4.
    assert found.answer.counts == (4,)
    best = found.answer.best(question)
    assert best is not None
    assert isinstance(best.placed, PlacedInstances)
    assert [one.devices for one in best.placed.instances[0]] == [(0, 1), (2, 3)]
    assert found.policies[best.policies[0]].by_device
    assert str(found.policies[best.policies[0]]).endswith("most for each device first")
