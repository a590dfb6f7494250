"""What a kin's networks say of others: closed forms, brute force, and networks of the zoo."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
import yaml

import hetsim
from figure_builders import kernel_figures, kin_block, kin_record
from hetsim.cost.fitted import Fitted
from hetsim.cost.kernels.form import COLUMN, FORMS, kernel_seconds, streamed_share
from hetsim.cost.kernels.likeness import (
    BATCHES,
    SAME,
    Likeness,
    Placed,
    covariance,
    said_by_kin,
    traits_of,
)
from hetsim.cost.kernels.networks import network_table, of_batch
from hetsim.graph.loading import model_of
from hetsim.graph.model import Model
from hetsim.hardware.catalog import load_device
from hetsim.hardware.files import catalog_files
from hetsim.hardware.kernel_figures import INDEX
from hetsim.hardware.kin import TRAITS, Kin, KnownNetwork, Likely
from hetsim.hardware.spec import Platform
from hetsim.problem.evidence_of_platform import device_evidence

FAR = [9.0] * len(TRAITS)


def place(*first: float) -> list[float]:
    return [*first, *[0.0] * (len(TRAITS) - len(first))]


def likely_of(known: Likeness, traits: np.ndarray, batch: int) -> Likely:
    """What is said of a network that is the same at all batches."""
    return known.predict(traits, batch, traits)


@pytest.fixture(scope="module")
def resnet() -> Model:
    return hetsim.load_model("zoo:resnet50")


def test_one_network_tells_by_the_closed_form() -> None:
    kin = kin_record([("anet", 1, 4, 0.3, place())])
    known = Likeness.of(kin)
    noise = 0.1**2 / 4
    for apart in (0.0, 0.01, 0.2, 0.45, 1.0):
        bell = math.exp(-((apart / 0.45) ** 2) / 2)
        own = math.exp(-((apart / SAME) ** 2) / 2)
        near = 0.25**2 * (0.6 * bell + 0.4 * own)
        found = likely_of(known, np.array(place(apart)), 1)
        assert found.effect == pytest.approx(near * 0.3 / (0.25**2 + noise), rel=1e-6)
        left = 0.25**2 - near**2 / (0.25**2 + noise)
        assert found.sd == pytest.approx(math.sqrt(left), rel=1e-6)
        assert found.factor == math.exp(found.effect)
        # Nothing tells of the only network but itself.
        assert found.usual_sd == pytest.approx(0.25)
        assert found.same == (apart < 0.1)
        assert found.networks == (("anet",) if apart < 0.9 else ())
    assert str(likely_of(known, np.array(place()), 1)) == "as anet: +33 %"


def test_a_network_that_was_run_gets_its_effect_and_one_like_none_nothing() -> None:
    kin = kin_record([("a", 1, 50, 0.3, place()), ("b", 1, 50, -0.1, place(3.0))], noise=0.05)
    known = Likeness.of(kin)
    a, b = (likely_of(known, np.array(one.traits), 1) for one in kin.networks)
    assert (a.effect, b.effect) == (pytest.approx(0.3, rel=0.01), pytest.approx(-0.1, rel=0.01))
    assert (a.networks, b.networks, a.same) == (("a",), ("b",), True)
    assert a.sd < 0.05 * kin.sd
    far = likely_of(known, np.array(FAR), 1)
    assert (far.effect, far.sd) == (pytest.approx(0, abs=1e-12), pytest.approx(0.25))
    assert (far.networks, far.same, str(far)) == ((), False, "like no network of its kin")


def test_names_decide_nothing_but_what_is_left_out_together() -> None:
    told = [("a", 1, 2, 0.3, place()), ("b", 1, 3, 0.1, place(0.3)), ("c", 1, 1, -0.2, FAR)]
    known = Likeness.of(kin_record(told))
    other = Likeness.of(kin_record([(name * 2, *rest) for name, *rest in told]))
    one, two = (likely_of(each, np.array(place(0.1)), 1) for each in (known, other))
    assert replace(one, networks=()) == replace(two, networks=())


def test_what_is_usual_is_what_the_others_tell_of_each() -> None:
    generator = np.random.default_rng(7)
    told = [
        (
            f"net{index // 2}",
            1 + 7 * (index % 2),
            1 + index,
            0.02 * index,
            generator.normal(0, 0.3, 17),
        )
        for index in range(8)
    ]
    kin = kin_record(told)
    known = Likeness.of(kin)
    for index, one in enumerate(kin.networks):
        others = replace(kin, networks=tuple(x for x in kin.networks if x.name != one.name))
        told_by = likely_of(Likeness.of(others), np.array(one.traits), one.batch)
        assert known.left_out[index] == pytest.approx(told_by.sd**2, rel=1e-4)
        assert known.told[index] == pytest.approx(told_by.effect, abs=1e-5)
    usual = likely_of(known, np.array(FAR), 1).usual_sd
    assert usual == pytest.approx(math.sqrt(known.left_out[::2].mean()))
    assert likely_of(known, np.array(FAR), 4).usual_sd == pytest.approx(
        math.sqrt(known.left_out[1::2].mean())
    )
    # No network of the range was run: all of them say what is usual.
    assert likely_of(known, np.array(FAR), 64).usual_sd == pytest.approx(
        math.sqrt(known.left_out.mean())
    )


def test_an_odd_network_moves_its_neighbours_no_more_than_they_bear() -> None:
    told = [("a", 1, 9, 5.0, place()), ("b", 1, 9, 0.0, place(0.4))]
    wild = Likeness.of(kin_record(told))
    told[0] = ("a", 1, 9, 2.5 * math.sqrt(0.25**2 + 0.1**2 / 9), place())
    tamed = Likeness.of(kin_record(told))
    for beside in (-0.6, -0.45):
        one, two = (likely_of(each, np.array(place(beside)), 1).effect for each in (wild, tamed))
        assert one == pytest.approx(two, abs=1e-3)
    # It is what it is where it was run.
    assert likely_of(wild, np.array(place()), 1).effect == pytest.approx(5, rel=0.02)


def test_a_kin_whose_networks_have_nothing_in_common_says_nothing_of_others() -> None:
    known = Likeness.of(kin_record([("a", 1, 9, 0.4, place())], shared=0.0))
    beside = likely_of(known, np.array(place(0.9)), 1)
    assert (beside.effect, beside.networks) == (pytest.approx(0, abs=1e-9), ())
    assert likely_of(known, np.array(place()), 1).effect == pytest.approx(0.4, rel=0.05)


def test_a_network_has_its_effect_at_other_batches_the_less_the_further_they_are() -> None:
    bnet = kin_record([("bnet", 1, 9, 0.0, place(5.0))]).networks[0]
    anet = KnownNetwork("anet", 4, 9, 0.3, tuple(place(1.0)), tuple(place()))
    known = Likeness.of(replace(kin_record(), networks=(anet, bnet), shared=0.0, noise=0.01))
    there = known.predict(np.array(place(1.0)), 4, np.array(place()))
    assert there.effect == pytest.approx(0.3, rel=0.01)
    effects = []
    for batch in (4, 8, 2, 1, 64):
        # At another batch kernels are unlike; one sample of it is the same network.
        found = known.predict(np.array(FAR), batch, np.array(place()))
        apart = abs(math.log(batch / 4))
        assert found.effect == pytest.approx(there.effect * math.exp(-apart / BATCHES), rel=1e-6)
        assert found.same
        assert found.networks == ("anet",)
        effects.append((found.effect, -found.sd))
    assert effects[1] == pytest.approx(effects[2])
    assert effects[0] > effects[1] > effects[3] > effects[4]
    other = known.predict(np.array(place(1.0)), 4, np.array(place(1.0)))
    assert (other.effect, other.same) == (pytest.approx(0, abs=1e-9), False)


def test_a_model_of_several_samples_is_known_by_one_of_them(resnet: Model) -> None:
    kin, table = kin_record(), network_table(resnet.graph)
    larger = replace(table, elements=table.elements.copy())
    larger.elements[:] = of_batch(table.elements, 4)
    one = tuple(traits_of(table, 1, kin).tolist())
    known = Likeness.of(replace(kin, networks=(KnownNetwork("a_resnet", 1, 20, 0.2, one, one),)))
    found = known.of_table(larger, 4, at=4)
    assert found == known.of_table(table, 4)
    assert found.same
    assert found.effect == pytest.approx(0.2 * math.exp(-math.log(4) / BATCHES), rel=0.25)


def test_covariance_is_one_for_the_same_and_never_indefinite() -> None:
    random = np.random.default_rng(3)
    traits, alone = random.normal(0, 1, (2, 30, len(TRAITS)))
    alone[::2] = alone[1::2]
    places = Placed(traits, alone, np.log(random.choice([1.0, 4.0, 8.0, 64.0], 30)))
    found = covariance(places, places, 0.7, 0.45)
    assert np.diag(found) == pytest.approx(np.ones(30))
    assert (found == found.T).all()
    assert np.linalg.eigvalsh(found).min() > -1e-12


@pytest.mark.parametrize("name", ["resnet50", "bert_small", "mobilenet_v2"])
def test_traits_are_shares_of_the_time_by_form(name: str) -> None:
    table, kin = network_table(hetsim.load_model(f"zoo:{name}").graph), kin_record()
    found = dict(zip(TRAITS, traits_of(table, 1, kin), strict=True))
    rows, weights = table.at(1, 4), table.weight_bytes(4)
    streamed = streamed_share(kin.mean[INDEX["weights_on_chip_mib"]], weights)
    took: dict[str, float] = {}
    for row, count in zip(rows, table.counts, strict=True):
        form = FORMS[int(row[COLUMN["form"]])]
        took[form] = took.get(form, 0.0) + count * kernel_seconds(kin.mean, row, streamed)
    total = sum(took.values())
    for form in ("dense", "pointwise", "depthwise", "resize"):
        assert (found[form] / 2) ** 2 == pytest.approx(took.get(form, 0.0) / total)
    products = sum(took.get(form, 0.0) for form in ("matmul", "batched", "attention", "softmax"))
    assert (found["matmul"] / 2) ** 2 == pytest.approx(products / total)
    assert found["seconds"] == pytest.approx(0.25 * math.log(total * 1e3))
    assert found["kernels"] == pytest.approx(0.25 * math.log(table.counts.sum()))
    assert traits_of(table, 8, kin)[TRAITS.index("seconds")] > found["seconds"]


def test_an_empty_network_has_traits() -> None:
    table = network_table(hetsim.load_model("zoo:squeezenet").graph)
    empty = replace(
        table, elements=table.elements[:0], stored=table.stored[:0], counts=table.counts[:0]
    )
    assert traits_of(empty, 1, kin_record()).tolist() == [0.0] * len(TRAITS)


@pytest.fixture
def kin_of_resnet(resnet: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kin:
    """The file of a kin that ran the zoo's ResNet-50, in a catalog of its own."""
    traits = traits_of(network_table(resnet.graph), 1, kin_record())
    told = [("a_resnet", 1, 20, 0.2, [round(one, 4) for one in traits.tolist()])]
    path = tmp_path / "fitted" / "kin" / "test-kin.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump(kin_block(told)), encoding="utf-8")
    monkeypatch.setattr(catalog_files, "_INSTALLED", tmp_path)
    return kin_record(told)


def alone(likeness: str) -> Platform:
    figures = replace(kernel_figures("float32"), likeness=likeness)
    spec = replace(CARD, kernels={"float32": figures}, execution_dtype={})
    return Platform("alone", {"gpu": spec}, (), "gpu", "", "")


CARD = load_device("nvidia-t4")


def test_prices_have_the_factor_on_every_kernel_and_not_on_the_dispatch(
    resnet: Model, kin_of_resnet: Kin
) -> None:
    plain, likely = (
        hetsim.Problem.of(resnet, alone(sha), cost="fitted") for sha in ("", "of this test")
    )
    said = likely.evidence[0].likely
    assert said is not None
    assert plain.evidence[0].likely is None
    figures = alone("of this test").devices["gpu"].kernels["float32"]
    assert said == said_by_kin(resnet.graph, figures, 1)
    assert (said.same, said.networks) == (True, ("a_resnet",))
    assert said.effect == pytest.approx(0.2, rel=0.05)
    assert likely.seconds == pytest.approx(plain.seconds * said.factor)
    assert [one.nodes for one in likely.fused] == [one.nodes for one in plain.fused]
    assert [one.seconds for one in likely.fused] == pytest.approx(
        [one.seconds * said.factor for one in plain.fused]
    )
    assert likely.dispatch_s == plain.dispatch_s
    assert likely.fingerprint != plain.fingerprint


def test_the_factor_is_said_wherever_figures_are(resnet: Model, kin_of_resnet: Kin) -> None:
    from hetsim.problem.record import problem_record
    from hetsim.reporting.tables.question import figures_text

    problem = hetsim.Problem.of(resnet, alone("of this test"), cost="fitted")
    said = problem.evidence[0].likely
    assert said is not None
    share = f"as a_resnet: {100 * (said.factor - 1):+.0f} %"
    assert f", {share}, 80 % within" in figures_text(problem.evidence, ())
    record = problem_record(problem)["figures"]["devices"]["gpu"]["likely"]
    assert record == {
        "factor": said.factor, "sd": said.sd, "usual_sd": said.usual_sd, "same": True,
        "networks": ["a_resnet"],
    }  # fmt: skip


def test_nothing_is_said_of_what_is_not_priced(kin_of_resnet: Kin) -> None:
    proto = onnx.parser.parse_model("""
    <ir_version: 8, opset_import: ["": 17]>
    counted (bool c, float[4, 8] x) => (float y)
    { y = If(c) <
        then_branch = t () => (float a)
            { n = NonZero(x) m = Cast <to = 1> (n) a = ReduceSum <keepdims = 0> (m) },
        else_branch = e () => (float b) { b = ReduceSum <keepdims = 0> (x) }> }
    """)
    problem = hetsim.Problem.of(model_of(proto), alone("of this test"), cost="fitted")
    assert problem.evidence[0].likely is None
    assert problem.unpriced


def test_a_network_that_was_run_is_surer_and_one_like_none_less() -> None:
    figures = kernel_figures()
    error = figures.errors[0]

    def with_sd(sd: float, noise: float = 0.0) -> tuple[float, float]:
        said = Likely(0.1, sd, 0.2, noise, False, ("x",))
        found = device_evidence("gpu", CARD, figures, 1, likely=said)
        return found.sd, found.common

    assert with_sd(0.2) == (pytest.approx(error.sd), pytest.approx(error.common))
    own = error.sd**2 - error.common**2
    for ratio in (0.0, 0.5, 1.7):
        sd, common = with_sd(0.2 * ratio)
        assert common == pytest.approx(error.common * ratio**2)
        assert sd**2 == pytest.approx(own + common**2)
    # Devices differ on a network by more than the errors have of it.
    assert with_sd(0.0, noise=0.5) == (pytest.approx(0.5), 0.0)


def test_estimates_name_the_networks(resnet: Model) -> None:
    from hetsim.cost.model import Kernel
    from hetsim.graph.work import graph_work

    works = graph_work(resnet.graph)
    spec = replace(CARD, kernels={"float32": kernel_figures()}, execution_dtype={})
    said = Likely(math.log(1.1), 0.1, 0.2, 0.0, False, ("anet", "bnet"))
    found = Fitted().of_works(works, said).estimate(spec, Kernel((works[0],)))
    plain = Fitted().of_works(works).estimate(spec, Kernel((works[0],)))
    assert found.seconds == pytest.approx(1.1 * plain.seconds)
    assert found.launch_s == pytest.approx(1.1 * plain.launch_s)
    assert found.provenance == f"{plain.provenance}; like anet, bnet: +10 %"
