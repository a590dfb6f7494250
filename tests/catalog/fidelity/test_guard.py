"""The guard by points made by hand: it sees each loss, and no gain elsewhere hides one."""

from __future__ import annotations

from catalog.fidelity.points import losses
from fidelity_builders import point


def test_the_same_points_lose_nothing():
    points = [point("a", 10, 11), point("b", 20, 19), point("c", 30, None)]
    assert not losses(points, points)
    assert losses(points, points).text() == ""


def test_points_that_are_no_longer_predicted_are_named():
    old = [point("a", 10, 11), point("b", 20, 19, network="other"), point("c", 1, None)]
    lost = losses(old, [point("a", 10, None)])
    assert lost.gone == ("net on a in int8", "other on b in int8")
    assert "2 points are no longer predicted" in lost.text()


def test_an_interval_that_no_longer_covers_is_told_with_both_predictions():
    lost = losses([point("a", 10, 11)], [point("a", 10, 16)])
    assert lost.uncovered == (
        "net on a in int8: measured 10 ms, predicted 16 ms within 1.5x (was 11 ms within 1.5x)",
    )
    # The same prediction, but surer of itself.
    assert losses([point("a", 10, 11)], [point("a", 10, 11, within=1.05)]).uncovered
    # What was not covered before is not lost, nor what is covered still.
    assert not losses([point("a", 10, 16)], [point("a", 10, 20)])
    assert not losses([point("a", 10, 11)], [point("a", 10, 14.9)])


def test_a_pair_in_the_wrong_order_is_named():
    old = [point("a", 10, 11), point("b", 12, 12)]
    lost = losses(old, [point("a", 10, 12.1), point("b", 12, 12)])
    assert lost.flipped == (
        "net on b in int8 against a in int8: measured 12 ms and 10 ms, predicted 12 ms and "
        "12.1 ms (was 12 ms and 11 ms)",
    )


def test_pairs_that_have_no_order_may_turn():
    near = [point("a", 10, 10), point("b", 10.9, 11)]
    assert not losses(near, [point("a", 10, 11), point("b", 10.9, 10)])
    wrong = [point("a", 10, 12), point("b", 12, 11)]
    assert not losses(wrong, [point("a", 10, 13), point("b", 12, 11)])
    one_device = [point("a", 10, 10), point("a", 12, 12, precision="float16")]
    assert not losses(one_device, [point("a", 10, 12), point("a", 12, 11, precision="float16")])
    unlike = [point("a", 10, 10), point("b", 12, 12, batch=8)]
    assert not losses(unlike, [point("a", 10, 12), point("b", 12, 11, batch=8)])


def test_nothing_that_got_better_makes_up_for_a_loss():
    others = [f"d{index}" for index in range(50)]
    old = [point("a", 10, 11), *(point(name, 10, 14) for name in others)]
    new = [point("a", 10, 15.1), *(point(name, 10, 10) for name in others)]
    assert len(losses(old, new).uncovered) == 1


def test_rounding_of_the_file_is_no_loss():
    old = [point("a", 10, 15), point("b", 12, 15.001)]
    assert not losses(old, [point("a", 10, 15.001), point("b", 12, 15)])


def test_a_long_list_is_cut():
    old = [point("a", 10, 10, network=f"net{index}") for index in range(30)]
    text = losses(old, []).text(most=3)
    assert text.splitlines()[0] == "30 points are no longer predicted:"
    assert text.splitlines()[-1] == "  and 27 more"
    assert len(text.splitlines()) == 5
