"""Nodes of a model that a kernel's name refers to.

Runtimes name a kernel after the nodes that it is made of, after the value that it writes, or
make a name up. What is understood:

- the name of a node of the file, of a canonical node, or of a value; ``node_of_VALUE``;
- what ONNX Runtime adds: ``_nchwc``, ``_bn_nchwc``, ``_nhwc``, ``_token_12``, ``/MatMulAddFusion``,
  ``_kernel_time``; and for a node without a name, its op type and number, ``Conv_3``;
- what others add: ``/WithoutBiases``, ``convolution:conv1``,
  ``Reformatting CopyNode for Input Tensor 0 to conv1``;
- several nodes: ``conv1 + relu1``, ``conv1+relu1``, ``conv1 || conv2``, ``conv1,relu1``,
  ``PWN(PWN(sigmoid1), mul1)``, ``fused_conv1_relu1``;
- a range of the file: ``{ForeignNode[first...last]}``.

Names that ONNX Runtime made up for canonical nodes (``gemm_input_reshape_token_2``) are left
out: the next session gives them to other nodes.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from hetsim.graph.model import Model

_ENDS = re.compile(
    r"(_kernel_time|_(bn|mul)_nchwc|_nchwc|_nhwc|_token_\d+|/\w+Fusion/?|/WithoutBiases"
    r"| (in|out)put reformatter \d+| copy)$"
)
_BEGINS = re.compile(
    r"^(Reformatting CopyNode for (Input|Output) Tensor \d+ to |node_of_|fused[ _]"
    r"|reformat:|[a-z_0-9]+:)"
)
_SEPARATE = re.compile(r"\s\+\s|\s\|\|\s|,\s*|[()]")
_CONSTANT = re.compile(r"(^|/)Constant(_\d+)?$")
_NUMBERED = re.compile(r"(.+?)_\d+_*")
_MOST_PARTS = 64
"""Maximum number of pieces of a name without blanks, and of suffixes to remove."""


@dataclass(frozen=True, slots=True)
class NodeReference:
    """Reference of a name: canonical nodes, ascending, or a range of positions in the file.

    Without nodes, the file's nodes of that name became constants; `exact`: the whole name is that
    of one node.
    """

    nodes: tuple[int, ...] = ()
    between: tuple[int, int] | None = None
    exact: bool = False


@dataclass(frozen=True)
class Names:
    """Names of one model's nodes and values; build it with ``Names.of``.

    `nodes` has canonical nodes by name in the file, `values` the producer of a value, `places` the
    position of a node in the file, and `nameless` the name of nodes that ONNX Runtime identifies by
    op type and number.
    """

    nodes: Mapping[str, tuple[int, ...]]
    values: Mapping[str, int]
    places: Mapping[str, int]
    nameless: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(model: Model) -> Names:
        """Return the index of the names of `model`. O(V + E)."""
        graph = model.graph
        found = {name: model.canonical_names(name) for name in model.original_nodes}
        ids = {node.name: node.id for node in graph.nodes}
        nodes = {
            name: tuple(sorted(ids[each] for each in canonical))
            for name, canonical in found.items()
        }
        for node in graph.nodes:
            if "_token_" not in node.name and _is_after_one(node.name, found):
                nodes.setdefault(node.name, (node.id,))
        nameless: dict[str, str] = {}
        constants = 0
        for place, name in enumerate(model.original_nodes):
            if _CONSTANT.search(name):
                constants += 1
            elif (numbered := _NUMBERED.fullmatch(name)) is not None:
                # The runtime numbers nodes after Constants became initializers.
                nameless.setdefault(f"{numbered[1]}_{place - constants}", name)
        return Names(
            nodes,
            graph.producers(),
            {name: place for place, name in enumerate(model.original_nodes)},
            nameless,
        )

    def spoken(self, name: str, *, op: str = "", index: int | None = None) -> NodeReference | None:
        """Return the nodes that `name` refers to; None for none of the model."""
        if index is not None and name == f"{op}_{index}":
            here = self.nameless.get(name)
            return None if here is None else NodeReference(self.nodes[here], exact=True)
        if name in self.nodes:
            return NodeReference(self.nodes[name], exact=True)
        between = self._between(name)
        if between is not None:
            return NodeReference(between=between)
        whole = self._one(name)
        if whole is not None:
            return NodeReference(whole)
        parts = [part for part in _SEPARATE.split(name) if part and part.strip()]
        if len(parts) > 1:
            known = [self._one(part.strip()) for part in parts]
            if any(known):
                return NodeReference(_union(known))
        for separator in ("+", "_"):
            pieced = self._pieced(_BEGINS.sub("", name), separator)
            if pieced is not None:
                return NodeReference(pieced)
        return None

    def _one(self, name: str) -> tuple[int, ...] | None:
        """Return the nodes of a name, or of a value's, without suffixes of runtimes."""
        of_value = False
        for _ in range(_MOST_PARTS):
            if name in self.values and (of_value or name not in self.nodes):
                return (self.values[name],)
            if name in self.nodes:
                return self.nodes[name]
            of_value = of_value or name.endswith(("_nchwc", "_nhwc"))
            shorter = _ENDS.sub("", name)
            if shorter == name:
                shorter = _BEGINS.sub("", name)
            if shorter == name:
                break
            name = shorter
        return None

    def _between(self, name: str) -> tuple[int, int] | None:
        _, _, spoken = name.partition("ForeignNode[")
        first_name, _, rest = spoken.partition("...")
        last_name, _, _ = rest.rpartition("]")
        if not last_name:
            return None
        ends = [self._place(first_name.strip()), self._place(last_name.strip())]
        if None in ends:
            return None
        first, last = sorted(place for place in ends if place is not None)
        return first, last

    def _place(self, name: str) -> int | None:
        parts = [name, *(part.strip() for part in _SEPARATE.split(name) if part)]
        return next((self.places[part] for part in parts if part in self.places), None)

    def _pieced(self, name: str, separator: str) -> tuple[int, ...] | None:
        """Return nodes whose names, joined by `separator`, form `name`; longest first."""
        parts = name.split(separator)
        if not 1 < len(parts) <= _MOST_PARTS:
            return None
        # By number of parts from the end: the nodes of the rest, None without any.
        rest: list[tuple[int, ...] | None] = [None] * len(parts) + [()]
        for begin in reversed(range(len(parts))):
            for end in range(len(parts), begin, -1):
                tail = rest[end]
                if tail is None:
                    continue
                found = self.nodes.get(separator.join(parts[begin:end]).strip())
                if found is not None:
                    rest[begin] = _union([found, tail])
                    break
        return rest[0]


def _is_after_one(name: str, names: Container[str]) -> bool:
    """Return whether a name is one of `names`, up to ONNX Runtime's suffixes."""
    for _ in range(_MOST_PARTS):
        if name in names:
            return True
        name = _ENDS.sub("", name)
    return False


def _union(found: Iterable[tuple[int, ...] | None]) -> tuple[int, ...]:
    return tuple(sorted({v for nodes in found if nodes is not None for v in nodes}))
