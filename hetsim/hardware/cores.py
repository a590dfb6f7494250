"""Cores of processors by name: what a cycle of one brings, and what it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Core:
    """One core.

    Attributes
    ----------
    family : str
        Instruction set: libraries have kernels of their own for each.
    float32 : float
        FLOP a cycle of its vector units, a multiply-add counted twice; scalar ones where it has
        no others.
    float16 : float or None
        The same in halves; None where it converts them first.
    int8 : float
        Operations a cycle on products of bytes: of dot products, else of widening ones.
    matrices : float or None
        Operations a cycle on bytes of a unit for products of matrices, which takes half as many
        on numbers of 16 bits; None where there is none.
    in_order : bool
        Whether it issues in the order of the program: a miss of the cache stalls it.
    """

    family: str
    float32: float
    float16: float | None
    int8: float
    matrices: float | None = None
    in_order: bool = False


CORES: Mapping[str, Core] = {
    # Arm's manuals of optimization: pipes of 64 or 128 bit, halves from Armv8.2 on, dot products
    # from there too (Cortex-A75 and A55 on), products of matrices (I8MM) from Armv8.6 on.
    "cortex-a5": Core("arm", 2, None, 4, in_order=True),
    "cortex-a7": Core("arm", 2, None, 4, in_order=True),
    "cortex-a9": Core("arm", 4, None, 8),
    "cortex-a17": Core("arm", 8, None, 16),
    "cortex-a35": Core("arm", 4, None, 8, in_order=True),
    "cortex-a53": Core("arm", 8, None, 16, in_order=True),
    "cortex-a55": Core("arm", 8, 16, 32, in_order=True),
    "cortex-a57": Core("arm", 8, None, 16),
    "cortex-a72": Core("arm", 8, None, 16),
    "cortex-a73": Core("arm", 8, None, 16),
    "cortex-a75": Core("arm", 16, 32, 64),
    "cortex-a76": Core("arm", 16, 32, 64),
    "cortex-a77": Core("arm", 16, 32, 64),
    "cortex-a78": Core("arm", 16, 32, 64),
    "cortex-x1": Core("arm", 32, 64, 128),
    "cortex-x3": Core("arm", 32, 64, 256),
    "cortex-x4": Core("arm", 32, 64, 256),
    "cortex-a715": Core("arm", 16, 32, 128),
    "cortex-a720": Core("arm", 16, 32, 128),
    "cortex-a510": Core("arm", 8, 16, 64, in_order=True),
    "cortex-a520": Core("arm", 8, 16, 64, in_order=True),
    "neoverse-n1": Core("arm", 16, 32, 64),
    "neoverse-n2": Core("arm", 16, 32, 128),
    "taishan-v110": Core("arm", 16, 32, 64),
    "carmel": Core("arm", 16, 32, 32),
    "kryo": Core("arm", 8, None, 16),
    "oryon": Core("arm", 32, 64, 256),
    "firestorm": Core("arm", 32, 64, 128),
    "icestorm": Core("arm", 16, 32, 64),
    "cyclone": Core("arm", 16, None, 32),
    "ftc66x": Core("arm", 8, None, 16),
    # x86: two multiply-adds of the vectors that it has; bytes are widened before VNNI.
    "zen": Core("x86", 16, None, 16),
    "zen2": Core("x86", 32, None, 32),
    "zen3": Core("x86", 32, None, 32),
    "zen4": Core("x86", 32, None, 128),
    "zen5": Core("x86", 64, None, 256),
    "airmont": Core("x86", 4, None, 4),
    "yonah": Core("x86", 4, None, 4),
    "tremont": Core("x86", 8, None, 8),
    "gracemont": Core("x86", 16, None, 64),
    "skymont": Core("x86", 32, None, 128),
    "haswell": Core("x86", 32, None, 32),
    "skylake": Core("x86", 32, None, 32),
    "skylake-x": Core("x86", 64, None, 64),
    "cascade-lake": Core("x86", 64, None, 256),
    "ice-lake-sp": Core("x86", 64, None, 256),
    "tiger-lake": Core("x86", 32, None, 128),
    "golden-cove": Core("x86", 32, None, 128),
    "lion-cove": Core("x86", 32, None, 128),
    "sapphire-rapids": Core("x86", 64, None, 256, matrices=2048),
    # Its vectors are not those of other processors, and libraries have no kernels for them.
    "knights-corner": Core("x86", 2, None, 2, in_order=True),
    "gs264": Core("mips", 4, None, 4),
    "gs464e": Core("mips", 4, None, 4),
    "gs464v": Core("mips", 16, None, 32),
    "la264": Core("loongarch", 8, None, 16),
    "la464": Core("loongarch", 32, None, 64),
    "la664": Core("loongarch", 32, None, 64),
    "u74": Core("risc-v", 2, None, 2, in_order=True),
    "c906": Core("risc-v", 4, 8, 8, in_order=True),
    "c910": Core("risc-v", 8, 16, 16),
    "x60": Core("risc-v", 16, 32, 32, in_order=True),
    "sw26": Core("sunway", 4, None, 4, in_order=True),
    "sw3231": Core("sunway", 8, None, 8),
}
