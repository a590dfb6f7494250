"""The traits of a network, each by its definition, and what likeness makes of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from figure_builders import VALUES, kernel_figures, kin_record
from hetsim.cost.kernels.form import COLUMN, FEATURES, FORMS, kernel_seconds, streamed_share
from hetsim.cost.kernels.likeness import SAME, Likeness, traits
from hetsim.hardware.kin import TRAITS, Heard
from sweeps import examples

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


def place(*first: float) -> list[float]:
    return [*first, *[0.0] * (len(TRAITS) - len(first))]


def test_the_nearest_are_named_at_most_three_each_once() -> None:
    """Those that are alike by 0.4 of the first at least, and by a tenth; the first ones first."""
    told = [
        (name, 1, 9, 0.1, place(apart))
        for name, apart in (("c", 0.3), ("a", 0.1), ("d", 0.35), ("b", 0.2), ("far", 2.0))
    ]
    known = Likeness.of(kin_record(told))

    def named(apart: float) -> tuple[str, ...]:
        at = np.array(place(apart))
        return known.predict(at, 1, np.array(place(9.0))).networks

    def alike(a: float, b: float) -> float:
        return math.exp(-((a - b) ** 2) / (2 * 0.45**2))

    places = {name: traits[0] for name, _, _, _, traits in told}
    for apart in (0.0, 0.15, 0.5, 1.0, 1.2, 1.6, 3.2, 5.0):
        by = {name: alike(apart, where) for name, where in places.items()}
        order = sorted(by, key=lambda name: -by[name])
        close = [name for name in order if by[name] >= max(0.4 * by[order[0]], 0.1)]
        assert named(apart) == tuple(close[:3])
    twice = [*told, ("a", 8, 9, 0.1, place(0.1))]
    again = Likeness.of(kin_record(twice)).predict(np.array(place(0.1)), 1, np.array(place(9.0)))
    assert again.networks == ("a", "b", "c")


def heard(name: str, effect: float, share: float, *first: float, batch: int = 1) -> Heard:
    """What a kin of another runtime says of a network."""
    (network,) = kin_record([(name, batch, 1, effect, place(*first))]).networks
    return Heard(network, share)


def test_of_what_is_heard_its_share_is_expected_where_nothing_else_is_known() -> None:
    kin = replace(kin_record(), networks=())
    at = np.array(place())
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


def test_what_was_run_goes_before_what_is_heard_of_it() -> None:
    kin = kin_record([("ran", 1, 4, 0.2, place()), ("far", 1, 4, 0.0, place(9.0))])
    beside = replace(kin, heard=(heard("told", -0.2, 0.5, 3.0), heard("ran", 0.4, 0.5)))
    known = Likeness.of(beside)
    at, told = (np.array(place(x)) for x in (0.0, 3.0))
    assert known.predict(at, 1, at).same
    assert not known.predict(told, 1, told).same
    # Of the same name both are left out together.
    alone = Likeness.of(replace(kin, networks=kin.networks[1:], heard=beside.heard[:1]))
    without = alone.predict(at, 1, at)
    assert known.told[0] == pytest.approx(without.effect, abs=1e-6)
    assert known.left_out[0] == pytest.approx(without.sd**2, rel=1e-4)
    # What is usual is of those that were run.
    ran = math.sqrt(known.left_out[:2].mean())
    assert known.predict(at, 1, at).usual_sd == pytest.approx(ran)


def test_a_network_is_the_same_up_to_where_its_own_part_is_half() -> None:
    """exp(-e^2 / 2 SAME^2) = 1/2: beyond it is one that is alike."""
    kin = kin_record([("anet", 1, 9, 0.3, place()), ("bnet", 1, 9, 0.3, place(0.7))])
    known = Likeness.of(kin)
    half = SAME * math.sqrt(2 * math.log(2))
    for apart, same in ((0.999 * half, True), (1.001 * half, False)):
        at = np.array(place(-apart))
        found = known.predict(at, 1, at)
        assert found.same == same
        # The same network is named alone; one that is alike beside others that are.
        assert found.networks[0] == "anet"
