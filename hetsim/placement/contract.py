"""The contract of a strategy: a problem in, a valid plan out."""

from __future__ import annotations

from typing import Protocol

from hetsim.plans.plan import Plan
from hetsim.problem.problem import Problem


class Strategy(Protocol):
    """A frozen dataclass whose fields are its options."""

    def solve(self, problem: Problem) -> Plan:
        """Return a valid plan, the same in every process."""
        ...
