"""How measured times are spread over nodes, what is fused, and what is told of the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetsim.cost.prices import Fused
from hetsim.cost.profiles.formats import Profile, TimedKernel
from hetsim.cost.profiles.prices import MOST_FUSED, Priced, with_profile
from hetsim.errors import InvalidInput
from matched_kernels import model
from onnx_builders import op

INF = np.inf
NAMES = "abcd"
MODEL = model(
    op("Exp", "x", "a", "a"), op("MaxPool", "a", "b", "b", kernel_shape=[1, 1]),
    op("Sin", "b", "c", "c"), op("MaxPool", "c", "y", "d", kernel_shape=[1, 1]),
)  # fmt: skip
"""Four nodes; a pool is none that runs within another's kernel."""


def kernel(name: str, took_s: float, op: str = "", unit: str = "", **more: Any) -> TimedKernel:
    return TimedKernel(name, took_s, took_s, took_s, op, unit, **more)


def priced(
    *kernels: TimedKernel,
    seconds: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0),
    least: tuple[float, ...] | None = None,
    fused: tuple[Fused, ...] = (),
    kind: str = "npu",
    ordered: bool = True,
) -> Priced:
    profile = Profile("f", "profile.json", "0", kernels, 1, "", ordered)
    times = np.array(seconds)
    return with_profile(profile, MODEL, kind, times, np.array(least or seconds), fused)


def test_a_kernel_is_spread_by_what_its_nodes_would_take_alone() -> None:
    found = priced(kernel("a", 9.0), kernel("b + c", 10.0))
    assert found.seconds.tolist() == [9.0, 4.0, 6.0, 4.0]
    assert found.fused == (Fused((1, 2), 10.0),)
    assert found.share.measured == (True, True, True, False)
    assert (found.share.measured_s, found.share.modelled_s) == (19.0, 4.0)
    assert (found.share.nodes, found.share.by_name_s, found.share.by_place_s) == (4, 19.0, 0.0)
    # What would take no time takes equal parts; what the device does not take has none.
    even = priced(kernel("a + b", 8.0), seconds=(0.0, 0.0, 1.0, 1.0))
    assert even.seconds.tolist() == [4.0, 4.0, 1.0, 1.0]
    lacking = priced(kernel("a + b + c", 8.0), seconds=(1.0, INF, 3.0, 4.0))
    assert lacking.seconds.tolist() == [2.0, INF, 6.0, 4.0]
    assert (lacking.fused, lacking.share.nodes) == ((), 3)
    assert lacking.share.measured == (True, False, True, False)


def of_least(*kernels: TimedKernel, **more: Any) -> list[float]:
    return [float(each) for each in priced(*kernels, **more).least]


def test_the_least_of_what_is_measured_and_of_what_is_not() -> None:
    """It stays the part of the time that the model says."""
    assert of_least(kernel("a", 8.0), least=(0.25, 1.0, 0.0, 4.0)) == [2.0, 1.0, 0.0, 4.0]
    # More than all of it is all of it; of no time all is measured.
    assert of_least(kernel("a", 8.0), least=(5.0, 1.0, 0.0, 4.0))[0] == 8.0
    assert of_least(kernel("a", 8.0), seconds=(0.0, 1.0, 1.0, 1.0))[0] == 8.0


def test_measured_kernels_replace_those_of_the_model_but_composites() -> None:
    chain, pattern = Fused((0, 1), 2.5), Fused((0, 1), 2.0, "p")
    untouched = priced(kernel("c", 5.0), kernel("d", 5.0), fused=(chain,), ordered=False)
    assert untouched.fused == (chain,)
    # A measured member takes the fusion apart.
    ran = kernel("a", 1.0), kernel("b", 5.0)
    assert priced(*ran, fused=(Fused((1, 2), 2.5),)).fused == ()
    # A composite keeps its nodes: the measured one, and its part of what the model says.
    kept = priced(*ran, fused=(Fused((1, 2), 2.0, "p"),))
    assert kept.seconds.tolist() == [1.0, 5.0, 3.0, 4.0]
    (one,) = kept.fused
    assert (one.nodes, one.pattern) == ((1, 2), "p")
    assert one.seconds == pytest.approx(5.0 + 2.0 * 3 / 5)
    whole = priced(kernel("a + b", 6.0), fused=(pattern,))
    assert whole.fused == (Fused((0, 1), 6.0, "p"),)
    # A node that runs within the composite alone has what is left of it.
    within = priced(
        kernel("a + b", 6.0), seconds=(1.0, INF, 1.0, 1.0), fused=(Fused((0, 1), 4.0, "p"),)
    )
    (one,) = within.fused
    assert one.seconds == pytest.approx(6.0)
    assert within.seconds.tolist()[:2] == [pytest.approx(6.0 * 1 / 4), INF]


def test_the_larger_of_two_kernels_that_share_nodes_is_one() -> None:
    found = priced(kernel("a + b", 2.0), kernel("b + c + d", 9.0))
    assert [one.nodes for one in found.fused] == [(1, 2, 3)]
    same = priced(kernel("a + b", 2.0), kernel("b + c", 9.0))
    assert [one.nodes for one in same.fused] == [(0, 1)]
    twice = priced(kernel("a + b", 2.0), kernel("a + b", 3.0))
    assert twice.fused == (Fused((0, 1), pytest.approx(5.0)),)
    assert priced(kernel("a", 2.0)).fused == ()


def test_up_to_sixteen_nodes_are_one_kernel_and_what_has_a_place_is_none() -> None:
    for count in (MOST_FUSED, MOST_FUSED + 1):
        nodes = [op("Sin", f"v{k}" if k else "x", f"v{k + 1}", f"n{k}") for k in range(count)]
        long = model(*nodes, outputs=f"v{count}")
        told = Profile("f", "s", "0", (kernel(f"{{ForeignNode[n0...n{count - 1}]}}", 3.0),), 1, "")
        times = np.ones(count)
        found = with_profile(told, long, "npu", times, times, ())
        assert len(found.fused) == (count == MOST_FUSED)
        assert found.seconds.sum() == pytest.approx(3.0)
    placed = priced(kernel("a", 1.0), kernel("__myl_Something", 6.0), kernel("d", 1.0))
    assert placed.fused == ()
    assert (placed.share.by_place_s, placed.share.by_name_s) == (6.0, 2.0)


def test_what_has_no_node_is_told_with_why_the_dearest_first() -> None:
    found = priced(
        kernel("a", 1.0), kernel("mystery", 2.0), kernel("b", 5.0), kernel("other", 7.0),
        kernel("another", 2.0), kernel("copy", 3.0, "MemcpyToHost"),
        seconds=(1.0, INF, 3.0, 4.0), ordered=False,
    )  # fmt: skip
    assert [(one.name, one.seconds, one.why) for one in found.share.unmatched] == [
        ("other", 7.0, "no node of that name"), ("b", 5.0, "the device does not take it"),
        ("another", 2.0, "no node of that name"), ("mystery", 2.0, "no node of that name"),
    ]  # fmt: skip
    assert (found.share.moved_s, found.share.unmatched_s) == (3.0, 16.0)
    assert (found.share.inside, found.share.elsewhere_s) == (0, 0.0)


def test_units_have_their_own_and_none_of_them_is_said_so() -> None:
    mixed = (kernel("a", 1.0, unit="NPU"), kernel("b", 2.0, unit="CPU"))
    npu, cpu = (priced(*mixed, kind=kind) for kind in ("npu", "cpu"))
    assert (npu.share.measured_s, npu.share.elsewhere_s) == (1.0, 2.0)
    assert (cpu.share.measured_s, cpu.share.elsewhere_s) == (2.0, 1.0)
    gpus = (kernel("a", 1.0, unit="GPU"), kernel("b", 2.0, unit="NPU"))
    with pytest.raises(InvalidInput, match=r"no kernel of it ran on such a device: .* GPU, NPU"):
        priced(*gpus, kind="cpu")
    with pytest.raises(InvalidInput, match="can run none of the nodes"):
        priced(kernel("a", 1.0), seconds=(INF, 1.0, 1.0, 1.0))
    names = [kernel(f"odd{k}" + "x" * 100, 1.0) for k in range(5)]
    with pytest.raises(InvalidInput) as caught:
        priced(*names)
    said = str(caught.value)
    assert "none of its 5 kernels" in said
    assert [f"odd{k}" in said for k in range(5)] == [True] * 3 + [False] * 2
    assert ("x" * 56 in said, "x" * 57 in said) == (True, False)


@pytest.mark.parametrize(
    ("sizes", "refused"),
    [((36, 36, 36), False), ((36, 36, 7), False), ((36, 7, None), False), ((36, 7, 7), True),
     ((7, None, None), True), ((None, None, None), False)],
)  # fmt: skip
def test_most_of_the_sizes_that_are_told_must_be_those_of_the_model(
    sizes: tuple[int | None, ...], refused: bool
) -> None:
    kernels = [kernel(name, 1.0, elements=size) for name, size in zip("abc", sizes, strict=True)]
    if not refused:
        assert priced(*kernels).share.measured[:3] == (True, True, True)
        return
    other = next(name for name, size in zip("abc", sizes, strict=True) if size == 7)
    known = sum(size is not None for size in sizes)
    with pytest.raises(InvalidInput, match=f"of {known} kernels, '{other}' first"):
        priced(*kernels)
