"""What one run of a model showed: shapes that no inference finds, branches, trip counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Observed:
    """One run of the whole model.

    A node of control flow is named by its path: its name; within a body the path of the node
    that holds the body, the body's attribute, and the name, joined by ``/``
    (``outer/then_branch/inner``). The path of a body ends at the attribute. Nodes without a
    name are called ``{op_type}_{position in their body}``.

    Attributes
    ----------
    source : str
        What was run: ``random inputs``, ``the inputs given``, or the file they are from.
    given : bool
        Whether the caller gave the inputs: only then they are the ones that matter.
    inputs : mapping of str to shape
        Of every input that is a tensor.
    shapes : mapping of str to shape
        Of the graph's values that inference leaves open.
    branches : mapping of str to str
        By path of each If that was run: ``then_branch`` or ``else_branch``, the one it took
        more often.
    trips : mapping of str to float
        By path of each Loop and Scan that was run: iterations, on average over its runs.
    inner : mapping of str to mapping of str to shape
        By path of each body that was run: shapes of the values that its nodes write, the
        largest where iterations differ.
    """

    source: str
    given: bool
    inputs: Mapping[str, Shape]
    shapes: Mapping[str, Shape] = field(repr=False)
    branches: Mapping[str, str]
    trips: Mapping[str, float]
    inner: Mapping[str, Mapping[str, Shape]] = field(repr=False)
