"""What is said of plans that never end."""

from __future__ import annotations

from hetsim.errors import PlanError

NEVER_START = "its subgraphs wait for each other and never start"


def never_start(strategy: str) -> PlanError:
    """Return the error of a plan, by its strategy, of which some subgraph never starts."""
    return PlanError(
        NEVER_START,
        where=f"plan '{strategy}'",
        hint="order every group after the groups that feed it",
    )
