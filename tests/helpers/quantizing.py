"""Models as ONNX Runtime's own tools quantize them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx
from onnxruntime import quantization as q


class Feeds(q.CalibrationDataReader):
    """What is given, one after another."""

    def __init__(self, feeds: Iterable[dict[str, Any]]) -> None:
        self.left = iter(feeds)

    def get_next(self) -> dict[str, Any] | None:
        return next(self.left, None)


def as_quantized(
    source: Path | onnx.ModelProto,
    form: str,
    feeds: Iterable[dict[str, Any]],
    *,
    signed: bool = False,
) -> onnx.ModelProto:
    """The model in one of ``dynamic``, ``qoperator``, ``qdq``, ``qdq per channel``, ``qdq int16``.

    The tool writes beside what it reads: a file is copied, with all that stands beside it.
    """
    with TemporaryDirectory() as folder:
        own, target = Path(folder, "floats"), Path(folder, "q.onnx")
        if isinstance(source, Path):
            shutil.copytree(source.parent, own)
            path = own / source.name
        else:
            own.mkdir()
            path = own / "a.onnx"
            onnx.save(source, path)
        if form == "dynamic":
            q.quantize_dynamic(path, target)
        else:
            wide = form == "qdq int16"
            narrow = q.QuantType.QInt8 if signed else q.QuantType.QUInt8
            q.quantize_static(
                path,
                target,
                Feeds(feeds),
                quant_format=q.QuantFormat.QOperator if form == "qoperator" else q.QuantFormat.QDQ,
                per_channel=form == "qdq per channel",
                activation_type=q.QuantType.QUInt16 if wide else narrow,
                weight_type=q.QuantType.QInt8,
                extra_options={"UseQDQContribOps": True} if wide else {},
            )
        return onnx.load(target)
