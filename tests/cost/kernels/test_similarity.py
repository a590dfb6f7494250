"""What the networks of a kin say of another: closed forms, traits by definition, prices."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import hetsim
from figure_builders import VALUES, kernel_figures, kin_block, kin_record
from hetsim.cost.fitted import Fitted
from hetsim.cost.kernels.formula import COLUMN, FEATURES, FORMS, kernel_seconds, streamed_share
from hetsim.cost.kernels.networks import network_table, of_batch
from hetsim.cost.kernels.similarity import (
    BATCHES,
    SAME,
    Likeness,
    NetworkPositions,
    covariance,
    predicted_by_family,
    traits,
    traits_of,
)
from hetsim.graph.loading import model_of
from hetsim.graph.model import Model
from hetsim.hardware.catalog import load_device
from hetsim.hardware.files import catalog_files
from hetsim.hardware.kin import TRAITS, Kin, KnownNetwork, Likely, RelatedNetwork
from hetsim.hardware.spec import Platform
from sweeps import examples

FAR = [9.0] * len(TRAITS)


def placed(*first: float) -> list[float]:
    return [*first, *[0.0] * (len(TRAITS) - len(first))]


def likely_of(known: Likeness, traits: np.ndarray, batch: int) -> Likely:
    """What is said of a network that is the same at all batches."""
    return known.predict(traits, batch, traits)


@pytest.fixture(scope="module")
def resnet() -> Model:
    return hetsim.load_model("zoo:resnet50")


def test_one_network_tells_by_the_closed_form() -> None:
    kin = kin_record([("anet", 1, 4, 0.3, placed())])
    known = Likeness.of(kin)
    noise = 0.1**2 / 4
    for apart in (0.0, 0.01, 0.2, 0.45, 1.0):
        bell = math.exp(-((apart / 0.45) ** 2) / 2)
        own = math.exp(-((apart / SAME) ** 2) / 2)
        near = 0.25**2 * (0.6 * bell + 0.4 * own)
        found = likely_of(known, np.array(placed(apart)), 1)
        assert found.effect == pytest.approx(near * 0.3 / (0.25**2 + noise), rel=1e-6)
        left = 0.25**2 - near**2 / (0.25**2 + noise)
        assert found.sd == pytest.approx(math.sqrt(left), rel=1e-6)
        assert found.factor == math.exp(found.effect)
        # Nothing tells of the only network but itself.
        assert found.usual_sd == pytest.approx(0.25)
        assert found.same == (apart < 0.1)
        assert found.networks == (("anet",) if apart < 0.9 else ())
    assert str(likely_of(known, np.array(placed()), 1)) == "as anet: +33 %"


def test_a_network_that_was_run_gets_its_effect_and_one_like_none_nothing() -> None:
    kin = kin_record([("a", 1, 50, 0.3, placed()), ("b", 1, 50, -0.1, placed(3.0))], noise=0.05)
    known = Likeness.of(kin)
    a, b = (likely_of(known, np.array(one.traits), 1) for one in kin.networks)
    assert (a.effect, b.effect) == (pytest.approx(0.3, rel=0.01), pytest.approx(-0.1, rel=0.01))
    assert (a.networks, b.networks, a.same) == (("a",), ("b",), True)
    assert a.sd < 0.05 * kin.sd
    far = likely_of(known, np.array(FAR), 1)
    assert (far.effect, far.sd) == (pytest.approx(0, abs=1e-12), pytest.approx(0.25))
    assert (far.networks, far.same, str(far)) == ((), False, "like none of the family's networks")


def test_names_decide_nothing_but_what_is_left_out_together() -> None:
    told = [("a", 1, 2, 0.3, placed()), ("b", 1, 3, 0.1, placed(0.3)), ("c", 1, 1, -0.2, FAR)]
    known = Likeness.of(kin_record(told))
    other = Likeness.of(kin_record([(name * 2, *rest) for name, *rest in told]))
    one, two = (likely_of(each, np.array(placed(0.1)), 1) for each in (known, other))
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
    told = [("a", 1, 9, 5.0, placed()), ("b", 1, 9, 0.0, placed(0.4))]
    wild = Likeness.of(kin_record(told))
    told[0] = ("a", 1, 9, 2.5 * math.sqrt(0.25**2 + 0.1**2 / 9), placed())
    tamed = Likeness.of(kin_record(told))
    for beside in (-0.6, -0.45):
        one, two = (likely_of(each, np.array(placed(beside)), 1).effect for each in (wild, tamed))
        assert one == pytest.approx(two, abs=1e-3)
    # It is what it is where it was run.
    assert likely_of(wild, np.array(placed()), 1).effect == pytest.approx(5, rel=0.02)


def test_a_network_has_its_effect_at_other_batches_the_less_the_further_they_are() -> None:
    bnet = kin_record([("bnet", 1, 9, 0.0, placed(5.0))]).networks[0]
    anet = KnownNetwork("anet", 4, 9, 0.3, tuple(placed(1.0)), tuple(placed()))
    known = Likeness.of(replace(kin_record(), networks=(anet, bnet), shared=0.0, noise=0.01))
    there = known.predict(np.array(placed(1.0)), 4, np.array(placed()))
    assert there.effect == pytest.approx(0.3, rel=0.01)
    effects = []
    for batch in (4, 8, 2, 1, 64):
        # At another batch kernels are unlike; one sample of it is the same network.
        found = known.predict(np.array(FAR), batch, np.array(placed()))
        apart = abs(math.log(batch / 4))
        assert found.effect == pytest.approx(there.effect * math.exp(-apart / BATCHES), rel=1e-6)
        assert found.same
        assert found.networks == ("anet",)
        effects.append((found.effect, -found.sd))
    assert effects[1] == pytest.approx(effects[2])
    assert effects[0] > effects[1] > effects[3] > effects[4]
    other = known.predict(np.array(placed(1.0)), 4, np.array(placed(1.0)))
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
    places = NetworkPositions(traits, alone, np.log(random.choice([1.0, 4.0, 8.0, 64.0], 30)))
    found = covariance(places, places, 0.7, 0.45)
    assert np.diag(found) == pytest.approx(np.ones(30))
    assert (found == found.T).all()
    assert np.linalg.eigvalsh(found).min() > -1e-12


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
    assert said == predicted_by_family(resnet.graph, figures, 1)
    assert (said.same, said.networks) == (True, ("a_resnet",))
    assert said.effect == pytest.approx(0.2, rel=0.05)
    assert likely.seconds == pytest.approx(plain.seconds * said.factor)
    assert [one.nodes for one in likely.fused] == [one.nodes for one in plain.fused]
    assert [one.seconds for one in likely.fused] == pytest.approx(
        [one.seconds * said.factor for one in plain.fused]
    )
    assert likely.dispatch_s == plain.dispatch_s
    assert likely.fingerprint != plain.fingerprint


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


MEAN = kernel_figures().values
BY_FORM = {
    "dense": ("dense",), "pointwise": ("pointwise",), "depthwise": ("depthwise",),
    "grouped": ("grouped",), "transposed": ("transposed",), "recurrent": ("recurrent",),
    "matmul": ("matmul", "batched", "attention", "softmax"), "normalization": ("normalization",),
    "elementwise": ("elementwise", "pooling", "reduction"), "resize": ("resize",),
    "movement": ("movement", "concat", "transpose", "gather"),
}  # fmt: skip
"""Forms whose time counts for a trait; that of what nothing is known of counts for none."""


def kernel(form: str, **features: float) -> np.ndarray:
    made = dict.fromkeys(FEATURES, 1.0) | {"form": float(FORMS.index(form)), **features}
    return np.array([made[name] for name in FEATURES])


@st.composite
def kernels(draw: st.DrawFn) -> np.ndarray:
    size = st.integers(1, 500)
    return kernel(
        draw(st.sampled_from(FORMS)),
        **{name: draw(size) for name in ("rows", "columns", "depth")},
        **{name: draw(st.integers(0, 10**7)) for name in ("flops", "read_bytes", "write_bytes")},
    )


@examples(quick=40, full=500)
@given(
    st.lists(st.tuples(kernels(), st.integers(1, 5)), min_size=1, max_size=8),
    st.sampled_from((0.0, 1e5, 1e9)),
)
def test_each_trait_by_its_definition(
    network: list[tuple[np.ndarray, int]], weight_bytes: float
) -> None:
    rows, counts = np.array([one for one, _ in network]), np.array([float(n) for _, n in network])
    streamed = streamed_share(VALUES["weights_on_chip_mib"] * 2**20, weight_bytes)
    took = [n * kernel_seconds(MEAN, one, streamed) for one, n in network]
    total = sum(took)
    expected = {}
    for trait, forms in BY_FORM.items():
        own = [t for t, one in zip(took, rows, strict=True) if FORMS[int(one[0])] in forms]
        expected[trait] = 2 * math.sqrt(sum(own) / total)
    launches = sum(n for _, n in network)

    def mean_log(name: str) -> float:
        logs = [math.log(one[COLUMN[name]]) for one in rows]
        return sum(t * each for t, each in zip(took, logs, strict=True)) / total

    expected["seconds"] = 0.25 * math.log(total * 1e3)
    expected["kernels"] = 0.25 * math.log(launches)
    expected["columns"] = 0.35 * mean_log("columns")
    expected["rows"] = 0.25 * mean_log("rows")
    expected["launch"] = math.sqrt(VALUES["launch_us"] * 1e-6 * launches / total)
    read_s = weight_bytes / (VALUES["weights_gbytes_s"] * 1e9)
    expected["weights"] = 0.7 * math.sqrt(min(read_s / total, 1.5))
    found = dict(zip(TRAITS, traits(rows, counts, weight_bytes, MEAN).tolist(), strict=True))
    assert found == pytest.approx(expected)


def heard(name: str, effect: float, share: float, *first: float, batch: int = 1) -> RelatedNetwork:
    """What a kin of another runtime says of a network."""
    (network,) = kin_record([(name, batch, 1, effect, placed(*first))]).networks
    return RelatedNetwork(network, share)


def test_of_what_is_heard_its_share_is_expected_where_nothing_else_is_known() -> None:
    kin = replace(kin_record(), networks=())
    at = np.array(placed())
    nothing = Likeness.of(kin).predict(at, 1, at)
    assert (nothing.effect, nothing.sd, nothing.usual_sd) == (0.0, kin.sd, kin.sd)
    assert (nothing.same, nothing.networks, nothing.noise) == (False, (), kin.noise)
    for share in (0.1, 0.5, 0.9):
        known = Likeness.of(replace(kin, heard=(heard("anet", 0.2, share),)))
        found = known.predict(at, 1, at)
        assert found.effect == pytest.approx(share * 0.2, rel=1e-6)
        assert found.sd == pytest.approx(kin.sd * math.sqrt(1 - share), rel=1e-6)
        # It was not run by the kin itself, which is what is usual of it.
        assert (found.same, found.networks) == (False, ("anet",))
        assert found.usual_sd == pytest.approx(kin.sd)
        # An odd one moves nothing by more than any could: two and a half standard deviations.
        odd = Likeness.of(replace(kin, heard=(heard("anet", 9.0, share),))).predict(at, 1, at)
        most = 2.5 * kin.sd / math.sqrt(share)
        assert odd.effect == pytest.approx(share * most, rel=1e-6)
