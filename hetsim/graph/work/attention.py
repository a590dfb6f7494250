"""Rules of attention and recurrent layers: several products in one node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hetsim.graph.work.elementwise import EXP, SIGMOID, TANH
from hetsim.graph.work.rule import NodeView, Product, Rule, no_flops


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes of attention: heads over all samples, queries and keys of each, and their widths."""

    heads: int
    rows: int
    columns: int
    key_width: int
    value_width: int

    @property
    def product(self) -> Product:
        return Product(
            form="attention",
            rows=self.rows,
            columns=self.columns,
            depth=self.key_width + self.value_width,
            groups=self.heads,
            operand_elements=self.heads * self.rows * self.key_width,
        )

    def flops(self, *, hidden: bool, added: int = 0, softcap: bool = False) -> int:
        pairs = _visible(self.rows, self.columns) if hidden else self.rows * self.columns
        return _flops(self, pairs, added=added, softcap=softcap)


def _flops(sizes: _Sizes, pairs: int, *, added: int = 0, softcap: bool = False) -> int:
    """Return the FLOP of softmax(Q K^T) V for `pairs` per head, each with `added` terms.

    Pairs hidden by a causal mask count, but not in the minimum: not all kernels skip them.
    """
    each = 2 * sizes.key_width + 2 * sizes.value_width + 1 + added + EXP + 4
    return sizes.heads * pairs * (each + (TANH + 2 if softcap else 0))


def _visible(rows: int, columns: int) -> int:
    """Return the pairs of query and key that a causal mask leaves."""
    seen = min(rows, columns)
    return rows * columns - seen * (seen - 1) // 2


def _attention_sizes(view: NodeView) -> _Sizes:
    """Return the sizes of ONNX Attention: 4-D (batch, heads, length, width) or 3-D packed heads."""
    query, key, value = (view.shape(i) for i in range(3))
    if len(query) == 4:
        batch, heads, rows, key_width = query
        columns, value_width = key[2], value[3]
    else:
        heads, kv_heads = view.integer("q_num_heads", 1), view.integer("kv_num_heads", 1)
        batch, rows, key_width = query[0], query[1], query[2] // heads
        columns, value_width = key[1], value[2] // kv_heads
    if view.has(4):
        columns += view.shape(4)[2]
    return _Sizes(batch * heads, rows, columns, key_width, value_width)


def _attention(view: NodeView, least: bool) -> int:
    return _attention_sizes(view).flops(
        hidden=least and view.integer("is_causal", 0) == 1,
        added=int(view.has(3)),
        softcap=view.number("softcap", 0.0) != 0.0,
    )


def _projected(past: int, masks: tuple[int, ...], integer_input: int | None = None) -> Rule:
    """Return the rule of com.microsoft Attention: one product for queries, keys and values."""

    def sizes(view: NodeView) -> _Sizes:
        batch, rows, _ = view.shape(0)
        columns = view.shape(1)[-1]
        heads = view.integer("num_heads", 1)
        widths = view.integers("qkv_hidden_sizes") or (columns // 3,) * 3
        length = rows + (view.shape(past)[3] if view.has(past) else 0)
        return _Sizes(batch * heads, rows, length, widths[0] // heads, widths[2] // heads)

    def flops(view: NodeView, least: bool) -> int:
        batch, rows, depth = view.shape(0)
        projection = (2 * depth + view.has(2)) * batch * rows * view.shape(1)[-1]
        return projection + sizes(view).flops(
            hidden=least and view.integer("unidirectional", 0) == 1,
            added=sum(view.has(position) for position in masks),
        )

    return _rule(flops, sizes, integer_input)


def _multi_head_sizes(view: NodeView) -> _Sizes:
    """Return the sizes of com.microsoft MultiHeadAttention: separate, packed or per-head K, V."""
    query, heads = view.shape(0), view.integer("num_heads", 1)
    batch, rows = query[:2]
    width = query[-1] if len(query) == 5 else query[2] // heads
    length, value_width = rows, width
    if view.has(1):
        key = view.shape(1)
        length = key[2] if len(key) == 4 else key[1]
        if view.has(2):
            value = view.shape(2)
            value_width = value[3] if len(value) == 4 else value[2] // heads
    if view.has(6):
        length += view.shape(6)[2]
    return _Sizes(batch * heads, rows, length, width, value_width)


def _multi_head(view: NodeView, least: bool) -> int:
    sizes = _multi_head_sizes(view)
    bias = 0
    if view.has(3):
        # Biases are added to the inputs, not to a cache.
        given = sizes.columns - (view.shape(6)[2] if view.has(6) else 0)
        widths = (sizes.rows + given) * sizes.key_width + given * sizes.value_width
        bias = sizes.heads * widths
    masks = int(view.has(4)) + int(view.has(5))
    hidden = least and view.integer("unidirectional", 0) == 1
    return bias + sizes.flops(hidden=hidden, added=masks)


def _grouped_sizes(view: NodeView) -> _Sizes:
    """Return the sizes of com.microsoft GroupQueryAttention, over the whole cache if fixed."""
    heads, kv_heads = view.integer("num_heads", 1), view.integer("kv_num_heads", 1)
    batch, rows, columns = view.shape(0)
    packed = not view.has(1)
    width = columns // (heads + 2 * kv_heads if packed else heads)
    length = rows
    if view.has_output(1):
        length = view.output(1).static_shape[2]
    elif view.has(3):
        length += view.shape(3)[2]
    return _Sizes(batch * heads, rows, length, width, width)


def _grouped(view: NodeView, least: bool) -> int:
    """Return the FLOP; at least, with an empty cache and each position's window before it."""
    sizes = _grouped_sizes(view)
    batch, rows, _ = view.shape(0)
    heads, kv_heads = view.integer("num_heads", 1), view.integer("kv_num_heads", 1)
    turned = view.integer("do_rotary", 0)
    rotated = batch * rows * (heads + kv_heads) * sizes.key_width if turned else 0
    pairs = rows * sizes.columns
    if least:
        window = view.integer("local_window_size", -1)
        pairs = min(_visible(rows, rows), rows * (window if window > 0 else rows))
    softcap = view.number("softcap", 0.0) != 0.0
    return 3 * rotated + _flops(sizes, pairs, added=int(view.has(10)), softcap=softcap)


def _masked_sizes(view: NodeView) -> _Sizes:
    """Return sizes of com.microsoft DecoderMaskedMultiHeadAttention: one position, and a cache."""
    query, heads = view.shape(0), view.integer("num_heads", 1)
    batch, rows = query[:2]
    width = query[-1] if len(query) == 5 else query[2] // heads
    length = view.shape(5)[2] if view.has(5) else rows
    return _Sizes(batch * heads, rows, length, width, width)


def _masked(view: NodeView, least: bool) -> int:
    sizes = _masked_sizes(view)
    if least:
        sizes = replace(sizes, columns=1)
    return sizes.flops(hidden=False, added=int(view.has(4)))


def _rule(
    flops: Callable[[NodeView, bool], int],
    sizes: Callable[[NodeView], _Sizes],
    integer_input: int | None = None,
) -> Rule:
    """Return a rule whose minimum FLOP may be below the maximum."""
    return Rule(
        "attention",
        lambda view: flops(view, False),
        integer_input=integer_input,
        least=lambda view: flops(view, True),
        product=lambda view: sizes(view).product,
    )


def _linear_product(view: NodeView) -> Product:
    """Return the product of each head's state, width by value width, read at every position."""
    batch, rows, columns = view.shape(0)
    heads, kv_heads = view.integer("q_num_heads", 1), view.integer("kv_num_heads", 1)
    return Product(
        form="attention",
        rows=rows,
        columns=view.shape(2)[2] // kv_heads,
        depth=columns // heads,
        groups=batch * heads,
        operand_elements=batch * rows * columns,
    )


def _linear_attention(view: NodeView) -> int:
    """Return the FLOP of one state (width by value width) per head, used at every position."""
    batch, rows, columns = view.shape(0)
    heads, kv_heads = view.integer("q_num_heads", 1), view.integer("kv_num_heads", 1)
    width, value_width = columns // heads, view.shape(2)[2] // kv_heads
    rule = view.text("update_rule", "gated_delta")
    state = width * value_width
    update = 2 * state
    if "gated" in rule:
        update += state + EXP * width
    if "delta" in rule:
        update += 2 * state + 2 * value_width
    read = 2 * state + value_width
    return batch * rows * (kv_heads * update + heads * read)


def _recurrent(gates: int, pointwise: int, peepholes: int = 0) -> Rule:
    """Return the rule of `gates` products per step and direction, plus `pointwise` per cell."""

    def flops(view: NodeView) -> int:
        lengths = view.constant(4)
        x = view.shape(0)
        return a_step(view) * (x[0] * x[1] if lengths is None else sum(lengths))

    def least(view: NodeView) -> int:
        return 0 if view.has(4) and view.constant(4) is None else flops(view)

    def a_step(view: NodeView) -> int:
        weights = view.shape(1)
        directions, rows = weights[0], weights[1]
        hidden = rows // gates
        products = 2 * rows * (view.shape(0)[2] + hidden)
        biases = 2 * rows if view.has(3) else 0
        extra = peepholes * hidden if peepholes and view.has(7) else 0
        return directions * (products + biases + extra + pointwise * hidden)

    def product(view: NodeView) -> Product:
        length, batch, width = view.shape(0)
        directions, columns = view.shape(1)[:2]
        return Product(
            form="recurrent",
            rows=batch,
            columns=columns,
            depth=width + columns // gates,
            groups=directions,
            operand_elements=length * batch * width,
            steps=length,
        )

    return Rule("recurrent", flops, least=least, product=product)


LSTM_POINTWISE = 3 * SIGMOID + 2 * TANH + 4
"""FLOP of an LSTM cell: three gates, candidate and output; c = f c + i z and h = o tanh(c)."""

_GRU_POINTWISE = 2 * SIGMOID + TANH + 5
"""FLOP of a GRU cell: two gates and the candidate; reset product; h = (1 - z) n + z h."""

_LINEAR = Rule("attention", _linear_attention, product=_linear_product)
_GROUPED = _rule(_grouped, _grouped_sizes)

RULES: Mapping[str, Rule] = {
    "Attention": _rule(_attention, _attention_sizes),
    "LinearAttention": _LINEAR,
    "com.microsoft:Attention": _projected(past=4, masks=(3, 5)),
    "com.microsoft:DecoderMaskedMultiHeadAttention": _rule(_masked, _masked_sizes),
    "com.microsoft:QAttention": _projected(past=8, masks=(5,), integer_input=0),
    "com.microsoft:MultiHeadAttention": _rule(_multi_head, _multi_head_sizes),
    "com.microsoft:GroupQueryAttention": _GROUPED,
    "com.microsoft:SparseAttention": replace(_GROUPED, least=no_flops),
    "com.microsoft:LinearAttention": _LINEAR,
    "GRU": _recurrent(3, _GRU_POINTWISE),
    "LSTM": _recurrent(4, LSTM_POINTWISE, peepholes=6),
    "RNN": _recurrent(1, TANH),
}
