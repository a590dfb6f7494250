"""What runs are made of: one entry a request, in the order of arrival."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Latencies: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
