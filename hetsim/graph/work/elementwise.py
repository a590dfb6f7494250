"""Rules of ops that compute each output element separately.

Arithmetic, comparison, logic and rounding count 1 FLOP per output element, broadcast included.
Functions without a machine instruction count a fixed weight, roughly that of a vector library:
range reduction, a polynomial of degree 5 or 6, and scaling.
"""

from __future__ import annotations

from collections.abc import Mapping

from hetsim.graph.work.rule import NodeView, Rule, moved_bytes, per_output

SQRT = 4
EXP = 16
LOG = 16
TRIGONOMETRIC = 16
ERF = 20
RANDOM = 10

SIGMOID = EXP + 3
TANH = EXP + 3
SOFTPLUS = EXP + LOG + 1
POW = EXP + LOG + 1
GELU = ERF + 4
GELU_TANH = TANH + 8

ARITHMETIC: Mapping[str, int] = {
    "Abs": 1, "Add": 1, "And": 1, "BitShift": 1, "BitwiseAnd": 1, "BitwiseNot": 1,
    "BitwiseOr": 1, "BitwiseXor": 1, "Cast": 1, "Ceil": 1, "Clip": 2, "Div": 1, "Equal": 1,
    "Floor": 1, "Greater": 1, "GreaterOrEqual": 1, "HardSigmoid": 4, "HardSwish": 5, "IsInf": 1,
    "IsNaN": 1, "LeakyRelu": 2, "Less": 1, "LessOrEqual": 1, "Mod": 4, "Mul": 1, "Neg": 1,
    "Not": 1, "Or": 1, "PRelu": 2, "Reciprocal": 1, "Relu": 1, "Round": 1, "Shrink": 3,
    "Sign": 2, "Softsign": 3, "Sub": 1, "ThresholdedRelu": 1, "Where": 1, "Xor": 1,
}  # fmt: skip
"""FLOP per output element: the operations in the op's definition."""

TRANSCENDENTAL: Mapping[str, int] = {
    "Acos": TRIGONOMETRIC, "Acosh": LOG + SQRT + 3, "Asin": TRIGONOMETRIC,
    "Asinh": LOG + SQRT + 3, "Atan": TRIGONOMETRIC, "Atanh": LOG + 4, "Celu": EXP + 5,
    "Cos": TRIGONOMETRIC, "Cosh": EXP + 3, "Elu": EXP + 3, "Erf": ERF, "Exp": EXP, "Log": LOG,
    "Mish": SOFTPLUS + TANH + 1, "Selu": EXP + 4, "Sigmoid": SIGMOID,
    "Sin": TRIGONOMETRIC, "Sinh": EXP + 3, "Softplus": SOFTPLUS, "Sqrt": SQRT,
    "SwiGLU": SIGMOID + 3, "Swish": SIGMOID + 2, "Tan": TRIGONOMETRIC, "Tanh": TANH,
}  # fmt: skip


SILU = frozenset({"SiLU", "silu", "swish"})
"""Names of Swish in fused ops."""


def activation_flops(name: str) -> int | None:
    """Return the FLOP per element of the activation that a fused op names; None if unknown."""
    if name in ("", "Affine"):
        return 2 if name else 0
    key = "Swish" if name in SILU else "Relu" if name == "relu" else name
    if key == "ScaledTanh":
        return TANH + 2
    return ARITHMETIC.get(key, TRANSCENDENTAL.get(key))


def _variadic(view: NodeView) -> int:
    terms = len([name for name in view.node.inputs if name])
    operations = terms - 1 + (view.node.op_type == "Mean")
    return operations * view.out_elements()


_POWERS: Mapping[float, int] = {0.5: SQRT, 1.0: 1, 2.0: 1, 3.0: 2, -1.0: 1, -0.5: SQRT + 1}
"""FLOP per element of powers that kernels and compilers simplify."""


def _pow(view: NodeView) -> int:
    exponent = view.one_number(1)
    each = POW if exponent is None else _POWERS.get(exponent, POW)
    return each * view.out_elements()


def _pow_least(view: NodeView) -> int:
    """Return the FLOP for an exponent in the data, which may be one of those."""
    return view.out_elements() if view.one_number(1) is None else _pow(view)


def _gelu(view: NodeView) -> int:
    weight = GELU_TANH if view.text("approximate", "none") == "tanh" else GELU
    return weight * view.out_elements()


def _gelu_with_bias(weight: int) -> Rule:
    return Rule("transcendental", lambda view: (weight + view.has(1)) * view.out_elements())


def _rotary(view: NodeView) -> int:
    """Return the FLOP of rotary embedding: two products and a sum per rotated element."""
    width = view.integer("rotary_embedding_dim", 0)
    heads = view.integer("num_heads", 0)
    shape = view.shape(0)
    size = shape[-1] // heads if len(shape) == 3 and heads else shape[-1]
    return 3 * view.elements() * (width or size) // size


def _random(weight: int, reads_input: bool) -> Rule:
    moved = moved_bytes if reads_input else lambda view: moved_bytes(view, {0: 0})
    return Rule("transcendental", lambda view: weight * view.out_elements(), moved)


RULES: Mapping[str, Rule] = {
    **{op: per_output("elementwise", weight) for op, weight in ARITHMETIC.items()},
    **{op: per_output("transcendental", weight) for op, weight in TRANSCENDENTAL.items()},
    **{op: Rule("elementwise", _variadic) for op in ("Max", "Mean", "Min", "Sum")},
    "CastLike": Rule(
        "elementwise", lambda view: view.out_elements(), lambda view: moved_bytes(view, {1: 0})
    ),
    "Pow": Rule("transcendental", _pow, least=_pow_least),
    "Range": per_output("elementwise", 2),
    "Gelu": Rule("transcendental", _gelu),
    "RotaryEmbedding": Rule("elementwise", _rotary),
    "Bernoulli": _random(RANDOM + 1, reads_input=True),
    "RandomUniform": _random(RANDOM + 2, reads_input=True),
    "RandomUniformLike": _random(RANDOM + 2, reads_input=False),
    "RandomNormal": _random(RANDOM + LOG + SQRT + TRIGONOMETRIC, reads_input=True),
    "RandomNormalLike": _random(RANDOM + LOG + SQRT + TRIGONOMETRIC, reads_input=False),
    "HannWindow": per_output("transcendental", TRIGONOMETRIC + 3),
    "HammingWindow": per_output("transcendental", TRIGONOMETRIC + 3),
    "BlackmanWindow": per_output("transcendental", 2 * TRIGONOMETRIC + 6),
    "MelWeightMatrix": per_output("elementwise", 4),
    "com.microsoft:BiasAdd": Rule("elementwise", _variadic),
    "com.microsoft:BiasGelu": _gelu_with_bias(GELU),
    "com.microsoft:BiasSplitGelu": per_output("transcendental", GELU + 3),
    "com.microsoft:FastGelu": _gelu_with_bias(GELU_TANH),
    "com.microsoft:Gelu": per_output("transcendental", GELU),
    "com.microsoft:QuickGelu": per_output("transcendental", SIGMOID + 2),
    "com.microsoft:RotaryEmbedding": Rule("elementwise", _rotary),
    "com.microsoft:Range": per_output("elementwise", 2),
}
