"""Seconds of many kernels and of whole networks at once, with their slopes, by machine code."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetsim.core.machine_code import machine_code
from hetsim.cost.kernels.features import FEATURES
from hetsim.cost.kernels.form import LEAST_STREAMED, kernel_parts, streamed_share
from hetsim.hardware.kernel_figures import INDEX, PARAMETERS

_PARAMETERS = len(PARAMETERS)
_WEIGHTS, _ON_CHIP = INDEX["weights_gbytes_s"], INDEX["weights_on_chip_mib"]
_DISPATCH, _IO = INDEX["dispatch_us"], INDEX["io_gbytes_s"]


def kernels_seconds(
    values: Sequence[float] | NDArray[np.float64], rows: NDArray[np.float64], streamed: float
) -> NDArray[np.float64]:
    """Return the seconds of each of many kernels, float array [n]; `rows` is [n, FEATURES]."""
    given = np.ascontiguousarray(values, dtype=np.float64)
    seconds: NDArray[np.float64] = _compiled()[0](given, np.ascontiguousarray(rows), streamed)
    return seconds


@dataclass(frozen=True, slots=True)
class Networks:
    """Kernels of many networks, laid end to end, for predictions and fits of the whole.

    Attributes
    ----------
    rows : float array [k, FEATURES]
        Kernels; those of network i are ``rows[first[i]:first[i + 1]]``.
    counts : float array [k]
        How often each occurs.
    first : int array [n + 1]
    weight_bytes, io_bytes : float array [n]
        All weights of a network, and its inputs and outputs.
    """

    rows: NDArray[np.float64]
    counts: NDArray[np.float64]
    first: NDArray[np.int64]
    weight_bytes: NDArray[np.float64]
    io_bytes: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        networks: Iterable[tuple[NDArray[np.float64], NDArray[np.float64], float, float]],
    ) -> Networks:
        """Lay networks end to end, each as (rows, counts, weight_bytes, io_bytes). O(k)."""
        given = list(networks)
        rows = [np.asarray(one[0], dtype=np.float64).reshape(-1, len(FEATURES)) for one in given]
        return cls(
            rows=np.concatenate([np.empty((0, len(FEATURES))), *rows]),
            counts=np.concatenate([np.empty(0), *(one[1] for one in given)]).astype(np.float64),
            first=np.cumsum([0, *(len(each) for each in rows)]).astype(np.int64),
            weight_bytes=np.array([one[2] for one in given], dtype=np.float64),
            io_bytes=np.array([one[3] for one in given], dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.weight_bytes)


def log_total_and_gradient(
    log_values: NDArray[np.float64],
    networks: Networks,
    which: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the log of the seconds of networks, and its derivatives by the log of parameters.

    Parameters
    ----------
    log_values : float array [PARAMETERS] or [sets, PARAMETERS]
        Logarithms of figures in SI units.
    networks : Networks
    which : int array [n], optional
        The set of figures that each network runs by; absent: the first.

    Returns
    -------
    float array [n], float array [n, PARAMETERS]

    O(k) with 33 parameters: 0.2 s for 12,000 networks of 60 kernels.
    """
    found: tuple[NDArray[np.float64], NDArray[np.float64]] = _compiled()[1](
        *_arguments(log_values, networks, which)
    )
    return found


def log_total(
    log_values: NDArray[np.float64],
    networks: Networks,
    which: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Return the log of the seconds of networks; as ``log_total_and_gradient`` without slopes."""
    found: NDArray[np.float64] = _compiled()[2](*_arguments(log_values, networks, which))
    return found


def _arguments(
    log_values: NDArray[np.float64], networks: Networks, which: NDArray[np.int64] | None
) -> tuple[NDArray[Any], ...]:
    """What the totals of networks take, as machine code has it."""
    sets = np.exp(np.atleast_2d(np.asarray(log_values, dtype=np.float64)))
    if which is None:
        which = np.zeros(len(networks), dtype=np.int64)
    return (
        np.ascontiguousarray(sets),
        np.asarray(which, dtype=np.int64),
        networks.rows,
        networks.counts,
        networks.first,
        networks.weight_bytes,
        networks.io_bytes,
    )


def _each(values, rows, streamed):  # type: ignore[no-untyped-def]
    seconds = np.empty(len(rows))
    for k in range(len(rows)):
        seconds[k] = kernel_parts(values, rows[k], streamed, None, 1.0)[0]
    return seconds


def _totals(sets, which, rows, counts, first, weight_bytes, io_bytes):  # type: ignore[no-untyped-def]
    logs = np.empty(len(which))
    for i in range(len(which)):
        values = sets[which[i]]
        streamed = streamed_share(values[_ON_CHIP], weight_bytes[i])
        total = values[_DISPATCH] + io_bytes[i] / values[_IO]
        for k in range(first[i], first[i + 1]):
            total += counts[k] * kernel_parts(values, rows[k], streamed, None, 1.0)[0]
        logs[i] = np.log(total)
    return logs


def _totals_and_slopes(sets, which, rows, counts, first, weight_bytes, io_bytes):  # type: ignore[no-untyped-def]
    logs = np.empty(len(which))
    slopes = np.zeros((len(which), _PARAMETERS))
    for i in range(len(which)):
        values = sets[which[i]]
        streamed = streamed_share(values[_ON_CHIP], weight_bytes[i])
        moving = io_bytes[i] / values[_IO]
        total = values[_DISPATCH] + moving
        slopes[i, _DISPATCH] = values[_DISPATCH]
        slopes[i, _IO] = -moving
        for k in range(first[i], first[i + 1]):
            total += counts[k] * kernel_parts(values, rows[k], streamed, slopes[i], counts[k])[0]
        if streamed > LEAST_STREAMED and weight_bytes[i] > 0.0:
            # Streaming less weighs as a higher bandwidth does.
            held = values[_ON_CHIP] / weight_bytes[i]
            slopes[i, _ON_CHIP] = slopes[i, _WEIGHTS] * held / streamed
        logs[i] = np.log(total)
        slopes[i] /= total
    return logs, slopes


@functools.cache
def _compiled() -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    parts = (kernel_parts, streamed_share)
    return (
        machine_code(_each, kernel_parts),
        machine_code(_totals_and_slopes, *parts),
        machine_code(_totals, *parts),
    )
