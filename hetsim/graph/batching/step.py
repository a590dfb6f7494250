"""One node of a model as the rules of batching see it, and what they ask to be changed of it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from hetsim.graph.graph import Graph, Node


class MixedError(Exception):
    """Requests of a batch meet in a node, or nothing shows that they do not; the text says how."""


@dataclass(slots=True)
class Edits:
    """What is to be changed so that a node takes several requests.

    Attributes
    ----------
    tiled : dict of int to int
        Place of a constant among the inputs, and the axis along which each request needs its own
        copy.
    sizes : dict of int to tuple of int
        Place of an input of whole numbers, and those that it is to have.
    reshape : tuple of int, optional
        The shape that a Reshape in the place of the node gives.
    """

    tiled: dict[int, int] = field(default_factory=dict)
    sizes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    reshape: tuple[int, ...] | None = None


class Step:
    """A node, with the axis of each of its inputs along which requests follow each other.

    What several requests give is what each gives alone, one after another along such an axis,
    which so is as many times as long. Values without one are the same for all requests.

    Parameters
    ----------
    graph : Graph
        Of one request, all shapes known.
    node : Node
    axes : mapping of str to int
        By value; those of its inputs are there.
    size : int
        Requests.
    stored : collection of str
        Constants that can be repeated.

    Attributes
    ----------
    node : Node
    edits : Edits
    """

    def __init__(
        self,
        graph: Graph,
        node: Node,
        axes: Mapping[str, int],
        size: int,
        stored: Collection[str],
    ) -> None:
        self.node = node
        self.edits = Edits()
        self._graph, self._axes, self._size, self._stored = graph, axes, size, stored

    def axis(self, place: int) -> int | None:
        """Return the axis of an input; None where all requests share it, or it is absent."""
        return self._axes.get(self.node.inputs[place]) if self.has(place) else None

    def has(self, place: int) -> bool:
        """Whether there is such an input."""
        return place < len(self.node.inputs) and bool(self.node.inputs[place])

    def shape(self, place: int) -> tuple[int, ...]:
        """Return the shape of an input, of one request."""
        return self._graph.tensors[self.node.inputs[place]].static_shape

    def out_shape(self, place: int = 0) -> tuple[int, ...]:
        """Return the shape of an output, of one request."""
        return self._graph.tensors[self.node.outputs[place]].static_shape

    def numbers(self, place: int) -> tuple[int, ...] | None:
        """Return the whole numbers of an input; None where they are no constant."""
        if not self.has(place):
            return None
        found = self._graph.constant_values.get(self.node.inputs[place])
        return None if found is None else tuple(int(number) for number in found)

    def attribute(self, name: str, default: int) -> int:
        """Return a whole number of the node."""
        found = self.node.attributes.get(name, default)
        assert isinstance(found, int)
        return found

    def integers(self, name: str) -> tuple[int, ...]:
        """Return whole numbers of the node; none where it does not have them."""
        found = self.node.attributes.get(name, ())
        assert isinstance(found, tuple)
        return found

    def opset(self) -> int:
        """Return the version of the operators of the node's domain."""
        return self._graph.opsets.get(self.node.domain, 1)

    def alone(self, *places: int) -> None:
        """Raise where other inputs than these differ by request."""
        for place in range(len(self.node.inputs)):
            if place not in places and self.axis(place) is not None:
                raise MixedError(f"its input {place} differs by request")

    def same(self, place: int, axis: int, length: int) -> None:
        """Let an input that all share go along with requests of this length along its axis.

        Of length 1 it is broadcast; one that has an entry for each is repeated for each request.
        """
        there = self.shape(place)[axis]
        if there == length > 1:
            self.repeat(place, axis)
        elif there != 1:
            raise MixedError(f"its input {place} has {there} entries where requests follow")

    def repeat(self, place: int, axis: int) -> None:
        """Let each request have a copy of an input that all share, along an axis of it."""
        if self.node.inputs[place] not in self._stored:
            raise MixedError(f"its input {place} is the same for all requests, and is no constant")
        self.edits.tiled[place] = axis

    def grown(self, shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
        """Return the shape that several requests have."""
        return (*shape[:axis], shape[axis] * self._size, *shape[axis + 1 :])

    def outermost(self, axis: int) -> None:
        """Raise where requests do not lie one after another in memory."""
        if math.prod(self.shape(0)[:axis]) != 1:
            raise MixedError("requests do not lie one after another in what it reshapes")
