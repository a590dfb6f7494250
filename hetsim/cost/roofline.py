"""Cost model ``roofline``: datasheet rates at the efficiency of each op class."""

from __future__ import annotations

from dataclasses import dataclass

from hetsim.cost.model import Estimate, Kernel
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.work import Work
from hetsim.hardware.spec import DeviceSpec


@dataclass(frozen=True, slots=True)
class Roofline:
    """Larger of arithmetic time and memory time, plus one launch.

    Arithmetic of a member runs at the device's dense peak for its element type times the efficiency
    of its op class; a type without a peak runs at that of the narrowest type that holds it, or else
    the slowest one stated, as noted in the estimate. Memory time is all bytes over peak bandwidth
    times ``memory_efficiency``. If the device computes a type in another (``execution_dtype``),
    rates and bytes are those of the other. A kernel that neither computes nor moves anything, a
    view, is free.

    Source: S. Williams, A. Waterman, D. Patterson, Roofline, CACM 52(4), 2009.
    """

    def estimate(self, device: DeviceSpec, kernel: Kernel) -> Estimate:
        """Return the time of `kernel` on `device`. O(members)."""
        compute_s = 0.0
        moved = 0.0
        notes: dict[str, None] = {}
        for work in kernel.works:
            compute_s += self._compute_s(device, work, notes)
            nbytes = work.read_bytes + work.write_bytes + work.weight_bytes
            moved += (nbytes - work.integer_bytes) * scale(device, work) + work.integer_bytes
        memory_s = moved / (device.bytes_per_s * device.memory_efficiency)
        busy_s = max(compute_s, memory_s)
        launch_s = device.launch_s if busy_s > 0 else 0.0
        return Estimate(
            seconds=busy_s + launch_s,
            compute_s=compute_s,
            memory_s=memory_s,
            launch_s=launch_s,
            provenance="; ".join(("roofline", *notes)),
        )

    @staticmethod
    def _compute_s(device: DeviceSpec, work: Work, notes: dict[str, None]) -> float:
        if work.flops == 0:
            return 0.0
        dtype = device.execution_dtype.get(work.dtype, work.dtype)
        rate = device.flops_per_s.get(dtype)
        if rate is None:
            used = substitute_type(device, dtype)
            rate = device.flops_per_s[used]
            notes[f"no {dtype} peak, taken as {used}"] = None
        efficiency = device.efficiency.get(work.op_class)
        if efficiency is None:
            efficiency = device.efficiency["default"]
        return work.flops / (rate * efficiency)


def substitute_type(device: DeviceSpec, dtype: str) -> str:
    """Return the stated type that replaces one without a peak."""
    rates = device.flops_per_s
    bits = ITEM_BITS.get(dtype, 0)
    wider = [
        name
        for name in rates
        if (ITEM_BITS[name] > bits and "float" in name)
        or (ITEM_BITS[name] >= bits and "float" not in dtype)
    ]
    if bits and wider and dtype != "bool":
        return min(wider, key=lambda name: (ITEM_BITS[name], -rates[name], name))
    return min(rates, key=lambda name: (rates[name], name))


def scale(device: DeviceSpec, work: Work) -> float:
    """Return bytes per element on the device over bytes per element in the graph."""
    executed = device.execution_dtype.get(work.dtype)
    if executed is None:
        narrow = ITEM_BITS.get(work.dtype, 0)
        if device.kind != "cpu" or "float" not in work.dtype or work.dtype in device.flops_per_s:
            return 1.0
        wide = ITEM_BITS[substitute_type(device, work.dtype)]
        return (wide + narrow) / narrow if wide > narrow else 1.0
    return ITEM_BITS[executed] / ITEM_BITS[work.dtype]
