"""What MLPerf's LoadGen says of a run: its early-stopping rule, by independent requests.

It takes requests for independent, which in a queue they are not: of runs at high load it calls
too many valid. It stands beside an answer as what LoadGen would have said.
"""

from __future__ import annotations

from dataclasses import dataclass

from scipy import special

from hetsim.core.checks import number, whole
from hetsim.errors import InvalidInput

CONFIDENCE = 0.99
"""LoadGen's own, with a tolerance of 0."""


@dataclass(frozen=True, slots=True)
class EarlyStopping:
    """LoadGen's verdict.

    Attributes
    ----------
    valid : bool
    more : int
        Requests that it would take to be valid, if none of them were late; 0 where it is.
    """

    valid: bool
    more: int


def early_stopping(
    requests: int, late: int, share: float, confidence: float = CONFIDENCE
) -> EarlyStopping:
    """Return what LoadGen says of a run of its server scenario.

    Valid where, were just this share of all requests on time, as few late ones as these would
    be seen with a chance below 1 - `confidence`: so many on time are needed for `late`.

    Parameters
    ----------
    requests : int
    late : int
        Of these, over the latency that is asked for.
    share : float
        Of requests that must be on time, above 0 and below 1.
    confidence : float

    Complexity: logarithmic in the requests. Source: ``MinPassingQueriesFinder`` of LoadGen,
    https://github.com/mlcommons/inference/blob/master/loadgen/early_stopping.cc; its sum of the
    binomial distribution is the incomplete beta function here.
    """
    whole(0)(requests, "requests")
    whole(0, requests)(late, "late")
    for value, name in ((share, "share"), (confidence, "confidence")):
        number(above=0)(value, name)
        if value >= 1:
            raise InvalidInput(f"{name} is {value:g}", hint="it is below 1")
    needed = late + least_on_time(late, share, confidence)
    return EarlyStopping(requests >= needed, max(needed - requests, 0))


def least_on_time(late: int, share: float, confidence: float = CONFIDENCE) -> int:
    """Return how many requests on time LoadGen wants beside `late` late ones."""

    def chance(on_time: int) -> float:
        """Return how likely so few late ones are of so many, at just this share on time."""
        return float(special.betainc(on_time, late + 1, share))

    low, high = 0, 1
    while chance(high) >= 1 - confidence:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if chance(middle) >= 1 - confidence else (low, middle)
    return high
