"""Which kernels of a profile are a device's own, which are copies, and what op types mean."""

from __future__ import annotations

import re

from hetsim.cost.profiles.record import TimedKernel

_OF_CPUS = frozenset(
    {"CPU", "CPUExecutionProvider", "XnnpackExecutionProvider", "DnnlExecutionProvider",
     "ACLExecutionProvider", "ArmNNExecutionProvider"}
)  # fmt: skip
_COPIES = frozenset({"MemcpyFromHost", "MemcpyToHost", "Memcpy"})
_COPY_NAME = re.compile(r"\[(HostToDevice|DeviceToHost)Copy\w*\]")
_CONVERSIONS = frozenset(
    {"ReorderInput", "ReorderOutput", "Reorder", "Reformat", "NoOp", "Reshape", "Transpose",
     "Permute", "Cast", "Convert", "Copy", "Identity", "Squeeze", "Unsqueeze", "Flatten"}
)  # fmt: skip
_OPAQUE = re.compile(
    r"__myl_|ForeignNode\[|TRTKernel_|ExecutionProvider_|DmlFusedNode|EPContext|EP-subgraph"
    r"|^subgraph_\d+|^CoreML_|^NNAPI"
)
_DENSE = (
    ("attention", "attention"), ("mha", "attention"), ("conv", "conv"), ("matmul", "matmul"),
    ("gemm", "matmul"), ("fullyconnected", "matmul"), ("innerproduct", "matmul"),
    ("lstm", "recurrent"), ("gru", "recurrent"), ("rnn", "recurrent"),
)  # fmt: skip

DENSE = frozenset({"attention", "conv", "matmul", "recurrent", "control_flow"})
"""Op classes of nodes that never run within another's kernel unless that says so."""

LIGHT = frozenset(
    {"elementwise", "transcendental", "data_movement", "normalization", "softmax", "quantize",
     "reduction", "gather_scatter"}
)  # fmt: skip
"""Op classes of what runtimes fuse into a neighbour, or remove."""


def is_copy(kernel: TimedKernel) -> bool:
    """Whether it moves a tensor between host and device, for which links are priced."""
    return kernel.op in _COPIES or _COPY_NAME.search(kernel.name) is not None


def is_conversion(kernel: TimedKernel) -> bool:
    """Whether it may have been put in to change a layout or type for its neighbour."""
    return kernel.op in _CONVERSIONS


def is_opaque(kernel: TimedKernel) -> bool:
    """Whether it is a compiled part of a graph whose name tells none of its nodes."""
    return _OPAQUE.search(kernel.name) is not None or _OPAQUE.search(kernel.op) is not None


def dense_class(kernel: TimedKernel) -> str | None:
    """The op class of the dense node that its op type says it runs; None where it says none."""
    low = kernel.op.lower().replace("_", "")
    return next((op_class for part, op_class in _DENSE if part in low), None)


def own(kernels: tuple[TimedKernel, ...], kind: str) -> tuple[bool, ...]:
    """Say of each kernel whether a device of `kind` ran it.

    Where the profile names one unit or none, all are its own: the user says so. Where it names
    several, a CPU has those of CPUs, every other device the rest.
    """
    units = {kernel.unit for kernel in kernels if kernel.unit}
    if len(units) < 2:
        return (True,) * len(kernels)
    return tuple(
        not kernel.unit or (kernel.unit in _OF_CPUS) == (kind == "cpu") for kernel in kernels
    )
