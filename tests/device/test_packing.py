"""Bytes of element types that numpy lacks, against ONNX's own packing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from hetsim.device.kernels.onnx_runtime import FOREIGN_TYPES, dtype_of, from_bytes, to_bytes
from hetsim.graph.graph import ITEM_BITS
from hetsim.graph.reading.onnx_types import dtype_name

SHAPES = st.lists(st.integers(0, 5), max_size=3)


@given(st.sampled_from(sorted(FOREIGN_TYPES)), SHAPES, st.integers(0, 2**32 - 1))
def test_bytes_are_those_of_onnx_and_come_back(name: str, shape: list[int], seed: int) -> None:
    kind = FOREIGN_TYPES[name]
    count = int(np.prod(shape))
    bits = ITEM_BITS[dtype_name(kind)]
    packed = np.random.default_rng(seed).integers(0, 256, (count * bits + 7) // 8, dtype=np.uint8)
    spare = packed.size * 8 - count * bits
    if spare:
        packed[-1] &= 0xFF >> spare
    tensor = onnx.TensorProto(data_type=kind, dims=shape, raw_data=packed.tobytes())
    array = numpy_helper.to_array(tensor)
    assert array.dtype == dtype_of(kind)
    found = from_bytes(packed, shape, kind)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    # As numbers: onnx and ml_dtypes leave different bits above a narrow element in its byte.
    assert found.astype(np.float32).tobytes() == array.astype(np.float32).tobytes()
    assert to_bytes(array, kind).tobytes() == packed.tobytes()
    assert to_bytes(found, kind).tobytes() == packed.tobytes()


def test_foreign_types_are_those_of_ml_dtypes() -> None:
    for kind in FOREIGN_TYPES.values():
        assert hasattr(ml_dtypes, str(dtype_of(kind)))
