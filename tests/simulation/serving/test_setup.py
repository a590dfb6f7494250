"""What is served and how: each thing that makes no sense is refused, its neighbours are not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hetsim.errors import UsageError
from hetsim.simulation.serving.setup import (
    Model,
    Source,
    Turns,
    check_block,
    check_sources,
    check_turns,
)

TABLE = np.zeros((1, 2, 3), dtype=np.int64)
BAD: list[tuple[dict[str, Any], str]] = [
    ({"limits": (1,)}, "limits .* of 2 instances"),
    ({"limits": (1, 1, 1)}, "limits .* of 2 instances"),
    ({"limits": (1, -1)}, "limits .* of 2 instances"),
    ({"routing": "shortest queue"}, "no routing 'shortest queue'"),
    ({"timeout_action": "rejects"}, "no timeout_action 'rejects'"),
    ({"cycle": (0, 1, 2)}, r"cycle \(0, 1, 2\) of 2 instances"),
    ({"cycle": (0, 1, -1)}, r"cycle \(0, 1, -1\) of 2 instances"),
    ({"cycle": (1,)}, "leaves out instance 0"),
    ({"cycle": (0,)}, "leaves out instance 1"),
    ({"ranks": ()}, "ranks"),
    ({"ranks": (0, -1)}, "ranks"),
    ({"max_queue_size": -1}, "a queue of -1"),
    ({"timeout_s": 0.0}, "a timeout of 0.0"),
    ({"timeout_s": math.nan}, "a timeout of nan"),
    ({"delay_s": -5e-324}, "a delay of -5e-324"),
    ({"delay_s": math.inf}, "a delay of inf"),
    ({"delay_s": math.nan}, "a delay of nan"),
    ({"preferred": (0, 1)}, "preferred"),
    ({"preferred": (4,)}, "preferred"),
    ({"preferred": (2, 1)}, "preferred"),
    ({"preferred": (1, 1)}, "preferred"),
]


@pytest.mark.parametrize(("said", "message"), BAD)
def test_models_that_make_none(said: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Model(TABLE, **{"limits": (1, 1), **said})


@pytest.mark.parametrize("shape", [(2, 3), (1, 1, 2, 3), (0, 2, 3), (1, 2, 0)])
def test_templates_are_three_dimensional_and_there(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="templates of shape"):
        Model(np.zeros(shape, dtype=np.int64), (1, 1))


@pytest.mark.parametrize(
    ("sizes", "limits", "gated"), [(1, (0, 0), False), (1, (0, 1), True), (2, (0, 0), True)]
)
def test_a_request_may_wait_where_batches_or_limits_are(
    sizes: int, limits: tuple[int, ...], gated: bool
) -> None:
    assert Model(np.zeros((1, 2, sizes), dtype=np.int64), limits).gated is gated


def turns(weight: Any, budget: tuple[int, ...] = (5, 5), *, fetch: int = -1) -> Turns:
    return Turns(budget, np.array(weight), np.full((2, 2), fetch), (((0,),), ((1,), (0, 1))))


def test_turns_are_of_bytes_that_there_are() -> None:
    turns([[5, 0], [1, 5]])
    for weight, message in (
        ([[6, 0], [1, 1]], "more bytes than its device has"),
        ([[5, 0], [0, 1]], r"model 1 needs no bytes of one of \(0, 1\)"),
        ([[0, 1], [1, 1]], r"model 0 needs no bytes of one of \(0,\)"),
        ([[1, 1]], "bytes of shape"),
        ([[1, 1, 1], [1, 1, 1]], "bytes of shape"),
    ):
        with pytest.raises(UsageError, match=message):
            turns(weight)


def test_those_who_take_turns_can_wait_and_are_loaded_by_what_there_is() -> None:
    one, two = Model(TABLE[:, :1], (1,)), Model(TABLE, (1, 1))
    given = turns([[5, 0], [1, 5]], fetch=3)
    check_turns(given, [one, two], 4)
    with pytest.raises(UsageError, match="a template outside of 3"):
        check_turns(given, [one, two], 3)
    for models in ([two, one], [one], [two, two]):
        with pytest.raises(UsageError, match="places are not one per"):
            check_turns(given, models, 4)
    for model in (Model(TABLE, (1, 0)), Model(TABLE, (1, 1), max_queue_size=0)):
        with pytest.raises(UsageError, match="model 1 takes turns in memory, and its requests"):
            check_turns(given, [one, model], 4)
    # Who takes no turns need not wait.
    free = Turns((5,), np.array([[0]]), np.array([[-1]]), (((),),))
    check_turns(free, [Model(TABLE[:, :1], (0,), max_queue_size=0)], 1)


def test_streams_ask_for_models_and_levels_that_there_are() -> None:
    check_sources(2, [1, 2], (Source(0), Source(1, 1)))
    for source, message in (
        (Source(2), "stream 1 asks for model 2 of 2"),
        (Source(-1), "stream 1 asks for model -1 of 2"),
        (Source(0, 1), "stream 1 has level 1 of 1"),
        (Source(1, 2), "stream 1 has level 2 of 2"),
        (Source(1, -1), "stream 1 has level -1 of 2"),
    ):
        with pytest.raises(UsageError, match=message):
            check_sources(2, [1, 2], (Source(0), source))


def block(arrival: list[float], stream: list[int], variant: list[int], now_s: float = 1.0) -> None:
    """Two streams, of models with one variant and with three."""
    check_block(np.array(arrival), np.array(stream), np.array(variant), np.array([1, 3]), now_s)


@pytest.mark.parametrize(
    ("arrival", "stream", "variant", "message"),
    [
        ([2.0, 1.0], [0, 0], [0, 0], "do not ascend"),
        ([1.0, math.nan, 2.0], [0, 0, 0], [0, 0, 0], "do not ascend"),
        ([math.nan], [0], [0], "are not numbers"),
        ([1.0, math.inf], [0, 0], [0, 0], "are not numbers"),
        ([-math.inf, 1.0], [0, 0], [0, 0], "are not numbers"),
        ([0.5, 1.0], [0, 0], [0, 0], "a request at 0.5 s after 1.0 s"),
        ([1.0, 2.0], [0], [0, 0], "different lengths"),
        ([1.0, 2.0], [0, 0], [0], "different lengths"),
        ([1.0], [0, 0], [0, 0], "different lengths"),
        ([1.0, 2.0], [0, 2], [0, 0], "none of 2 streams"),
        ([1.0, 2.0], [0, -1], [0, 0], "none of 2 streams"),
        ([1.0, 2.0], [0, 1], [1, 0], "a variant that its model does not have"),
        ([1.0, 2.0], [0, 1], [0, 3], "a variant that its model does not have"),
        ([1.0, 2.0], [0, 1], [0, -1], "a variant that its model does not have"),
    ],
)
def test_blocks_that_make_none(
    arrival: list[float], stream: list[int], variant: list[int], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        block(arrival, stream, variant)
