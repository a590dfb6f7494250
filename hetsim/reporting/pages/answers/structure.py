"""What requests may have to do, for a page: what the clock in ``assets/answers`` takes of it."""

from __future__ import annotations

from hetsim.base.text import Record
from hetsim.simulation.clock.playing import Layout


def structure_data(layout: Layout) -> Record:
    """Return the columns of ``Structure``, and how many links there are."""
    columns = layout.structure._asdict()
    return {"links": layout.links, **{name: list(one) for name, one in columns.items()}}
