"""What one node does, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from hetsim.graph.work.product import Product


@dataclass(frozen=True, slots=True)
class Work:
    """What one node does.

    Attributes
    ----------
    flops : int
    read_bytes : int
        Of values that are not constants.
    write_bytes : int
    weight_bytes : int
        Of constants.
    op_class : str
        One of ``hetsim.hardware.spec.OP_CLASSES``.
    dtype : str
        Element type that the arithmetic is done in: that of the first floating-point
        input, else output; for integer products ``int8`` or ``int4`` by their first
        operand, whatever its sign; else that of the first plain operand.
    rule : bool
        False where what it computes is not known, or not in full.
    why : str
        Why that is; ``""`` where `rule` is True.
    least : Work or None
        What it does at the least, where data decide and that is less; None where it is the same.
    integer_bytes : int
        Of `weight_bytes`: those of integers, which stay as they are stored on a device that
        computes floats in another type.
    form : str
        What its kernel is, one of ``hetsim.cost.kernels.features.FORMS``.
    product : Product or None
        The sizes of what it computes, where that is a product, or of the windows that it pools.
    exp_elements : int
        Elements that pass a function without a machine instruction (exp, erf, a root) on their
        way; what softmax, attention and recurrent layers take of them is part of their form.
    unsized : str
        Why `product` has the FLOP of what it computes and not its sizes, or why its arithmetic is
        in none; ``""`` where it has all.
    """

    flops: int
    read_bytes: int
    write_bytes: int
    weight_bytes: int
    op_class: str
    dtype: str
    rule: bool
    why: str = ""
    least: Work | None = None
    integer_bytes: int = 0
    form: str = "other"
    product: Product | None = None
    exp_elements: int = 0
    unsized: str = ""
