"""Small graphs in which patterns are sought, and random patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from hetsim.errors import UsageError
from hetsim.graph.graph import Graph, Node, Tensor
from hetsim.graph.patterns.pattern import (
    AttributeTest,
    Either,
    Maybe,
    Op,
    Pattern,
    Reference,
    Term,
    Wild,
    WildConstant,
)
from hetsim.graph.work import op_key

ARITY = {"Add": 2, "Sub": 2, "Relu": 1, "Sum": 3, "my:Split": 1}
DTYPE = ("float32", "float16")


def pattern_graph(
    nodes: Sequence[str],
    *,
    constants: str = "",
    outputs: str = "",
    dtypes: Mapping[str, str] | None = None,
    attributes: Mapping[str, Mapping[str, object]] | None = None,
    opset: int = 17,
) -> Graph:
    """A graph from lines such as ``"y = Add a b"`` or ``"p q = my:Split x"``.

    ``-`` is an absent value. A node is named after the first value that it writes. What no
    node writes is an input, or a constant where it is named as one. Without `outputs` what no
    node reads is an output.
    """
    built: list[Node] = []
    written: set[str] = set()
    read: dict[str, None] = {}
    for line in nodes:
        left, right = line.split("=")
        writes = ["" if word == "-" else word for word in left.split()]
        key, *reads = ["" if word == "-" else word for word in right.split()]
        domain, _, op_type = key.rpartition(":")
        name = next(filter(None, writes))
        built.append(
            Node(
                id=len(built),
                name=name,
                op_type=op_type,
                domain=domain,
                inputs=tuple(reads),
                outputs=tuple(writes),
                attributes=(attributes or {}).get(name, {}),
                origins=(name,),
            )
        )
        written.update(filter(None, writes))
        read.update(dict.fromkeys(filter(None, reads)))
    stored = frozenset(constants.split())
    kinds = dtypes or {}
    values = dict.fromkeys((*read, *(v for node in built for v in node.writes)))
    return Graph(
        name="test",
        nodes=tuple(built),
        tensors={v: Tensor(v, kinds.get(v, "float32"), (2, 3)) for v in values},
        inputs=tuple(v for v in read if v not in written and v not in stored),
        outputs=tuple(outputs.split()) or tuple(v for v in values if v not in read),
        constants=stored,
        opsets={"": opset},
    )


def random_graph(chosen: Random, most: int) -> Graph:
    """A graph of few op types with several outputs, absent inputs and constants."""
    values = ["x", "c", "d"]
    lines = []
    attributes = {}
    for number in range(chosen.randint(2, most)):
        key = chosen.choice(list(ARITY))
        near = values[-3:] if chosen.random() < 0.8 else values
        reads = [chosen.choice(near) for _ in range(ARITY[key])]
        if len(reads) > 1 and chosen.random() < 0.1:
            reads[-1] = "-"
        writes = [f"v{number}"]
        if key == "my:Split":
            writes.append(f"w{number}")
        if chosen.random() < 0.3:
            attributes[writes[0]] = {"k": chosen.randint(0, 1)}
        lines.append(f"{' '.join(writes)} = {key} {' '.join(reads)}")
        values += writes
    outputs = [value for value in values[3:] if chosen.random() < 0.03]
    return pattern_graph(
        lines,
        constants="c d",
        outputs=" ".join(outputs) or values[-1],
        attributes=attributes,
        dtypes={value: chosen.choice(DTYPE) for value in values},
    )


class DrawnPattern:
    """A pattern drawn around nodes of a graph, so that it often fits, and then loosened."""

    def __init__(self, graph: Graph, chosen: Random) -> None:
        self.graph = graph
        self.chosen = chosen
        self.writer = graph.producers()
        self.labels: dict[int, str] = {}
        self.seen: set[int] = set()
        self.left = 5

    def pattern(self, name: str) -> Pattern | None:
        """A pattern; None where what was drawn breaks a rule of patterns."""
        node = self.chosen.choice(self.graph.nodes[-3:])
        ends = [self.loosened(self.node(node.id, 0, True))]
        if self.chosen.random() < 0.3:
            other = self.chosen.choice(self.graph.nodes)
            ends.append(self.node(other.id, 0, True))
        check = (lambda _, nodes: sum(nodes) % 3 > 0) if self.chosen.random() < 0.1 else None
        try:
            return Pattern(name, tuple(ends), check)
        except UsageError:
            return None

    def node(self, number: int, port: int, needed: bool = False) -> Term:
        """A term for an output of a node."""
        chosen = self.chosen
        if number in self.labels:
            return Reference(self.labels[number], port if chosen.random() < 0.7 else None)
        if not needed and (self.left <= 0 or chosen.random() < 0.1):
            return self.value(self.graph.nodes[number].outputs[port])
        self.left -= 1
        node = self.graph.nodes[number]
        key = op_key(node)
        types = tuple(
            dict.fromkeys((key, *chosen.choices(list(ARITY), k=chosen.choice([0, 0, 1]))))
        )
        label = f"n{number}" if chosen.random() < 0.5 else ""
        shown = len(node.inputs) if chosen.random() < 0.8 else chosen.randint(0, len(node.inputs))
        inputs = [self.read(value) for value in node.inputs[:shown]]
        any_order = chosen.choice([None, None, None, True, False])
        if (any_order or key in ("Add", "Sum")) and chosen.random() < 0.5:
            chosen.shuffle(inputs)
        if label and number not in self.seen:
            self.labels[number] = label
        else:
            label = ""
        self.seen.add(number)
        tests = ()
        if chosen.random() < 0.15:
            values = tuple(chosen.sample([0, 1, None], chosen.randint(1, 2)))
            tests = (AttributeTest("k", values, chosen.random() < 0.5),)
        return Op(
            types,
            tuple(inputs),
            label,
            tests,
            self.dtypes(node.outputs[port]),
            port=port,
            any_order=any_order,
            shared=chosen.random() < 0.4,
        )

    def read(self, value: str) -> Term:
        """A term for a value that a node reads."""
        if not value or self.chosen.random() < 0.05:
            return Wild(optional=True)
        writer = self.writer.get(value)
        if writer is None:
            return self.value(value)
        return self.loosened(self.node(writer, self.graph.nodes[writer].outputs.index(value)))

    def value(self, value: str) -> Term:
        """A term for a value, whoever writes it."""
        label = f"v_{value}" if self.chosen.random() < 0.4 else ""
        if value in self.graph.constants and self.chosen.random() < 0.6:
            return WildConstant(label, self.dtypes(value))
        return Wild(label, self.dtypes(value))

    def dtypes(self, value: str) -> frozenset[str] | None:
        """Mostly none, else mostly one that allows the value."""
        if self.chosen.random() < 0.85:
            return None
        return frozenset({self.graph.tensors[value].dtype, self.chosen.choice(DTYPE)})

    def loosened(self, term: Term) -> Term:
        """The term, with an optional node or an alternative around it at times."""
        kind = self.chosen.random()
        if kind < 0.1:
            return Maybe(Op(("Relu", "my:Split"), (term,)))
        if kind < 0.2 and isinstance(term, Op) and term.inputs and not term.label:
            return Maybe(term)
        if kind < 0.35:
            other: Term = Op(self.chosen.choice(list(ARITY)), (term, *[Wild()] * (kind < 0.3)))
            return Either((term, other) if kind < 0.28 else (other, term))
        return term
