"""The sizes of a product: what the speed of a kernel depends on, besides FLOP and bytes."""

from __future__ import annotations

from dataclasses import dataclass

FORMS = (
    "dense", "pointwise", "depthwise", "grouped", "transposed", "matmul", "batched", "attention",
    "recurrent", "pooling", "resize",
)  # fmt: skip
"""Kinds of products. Convolutions: with a window, without one (1x1), one input channel a group,
several of them, and transposed. Matrix products: by weights, and of two activations; by weights,
too, a convolution whose window is all that it reads. Attention: queries by keys, and scores by
values. Recurrent layers: at every step input and state by weights. Pooling has windows as
convolutions have them, and nothing to multiply by; of resampling the window is what each result
is made of."""


@dataclass(frozen=True, slots=True)
class Product:
    """The product that a node computes, biases and activations left out.

    Attributes
    ----------
    form : str
        One of `FORMS`.
    rows : int
        Positions that share the weights of a group: batch times what is computed at each place.
        Of attention the queries.
    columns : int
        Results at each of them, a group: output channels. Of attention the keys.
    depth : int
        Terms of each sum: input channels a group, times the window. Of attention the width of a
        key and that of a value together.
    groups : int
        Products of that size, each with operands of its own.
    window, strides, dilations : tuple of int
        Of a convolution, a spatial dim each; empty for a matrix product.
    operand_elements : int
        Elements of the operand that the rows are taken from, each counted once: of a convolution
        its input.
    steps : int
        How often all of that is done, one after the other: the length of a sequence.
    positions : int
        Of a convolution: those of `rows` that one sample has.
    """

    form: str
    rows: int
    columns: int
    depth: int
    groups: int
    window: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    operand_elements: int = 0
    steps: int = 1
    positions: int = 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all groups and steps; each is 2 FLOP."""
        return self.rows * self.columns * self.depth * self.groups * self.steps
