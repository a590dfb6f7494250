"""One node as a model of its own, its inputs typed by the arrays that it is to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from hetsim.errors import ModelError, RequestError
from hetsim.graph.reading.onnx_runtime import check_versions


def present(names: Iterable[str]) -> list[str]:
    """The names that are not those of absent values."""
    return [name for name in names if name]


def model_of_node(
    node: onnx.NodeProto, values: Sequence[Any], version: int | None
) -> onnx.ModelProto:
    """Return the model; `version` is that of the node's operator set, None the newest.

    Raises RequestError where the values are not those that the node reads, or tell no type.
    """
    names = present(node.input)
    if len(values) != len(names):
        raise RequestError(
            f"{len(values)} values for {len(names)} inputs",
            where=f"node '{node.name or node.op_type}'",
            hint="give one for every input that has a name",
        )
    graph = onnx.helper.make_graph(
        [node],
        node.op_type,
        [
            onnx.helper.make_value_info(name, _type_of(value))
            for name, value in zip(names, values, strict=True)
        ],
        [onnx.ValueInfoProto(name=name) for name in present(node.output)],
    )
    domain = "" if node.domain == "ai.onnx" else node.domain
    chosen = _imports({"": _newest_opset(), domain: version or _newest_version(node, domain)})
    return onnx.helper.make_model(
        graph,
        opset_imports=chosen,
        ir_version=onnx.helper.find_min_ir_version_for(chosen, ignore_unknown=True),
    )


def _imports(versions: Mapping[str, int]) -> list[onnx.OperatorSetIdProto]:
    return [onnx.helper.make_opsetid(domain, version) for domain, version in versions.items()]


def _newest_version(node: onnx.NodeProto, domain: str) -> int:
    """The newest version of the op's domain; of one that ONNX does not define, the first."""
    if not domain:
        return _newest_opset()
    try:
        return int(onnx.defs.get_schema(node.op_type, domain).since_version)
    except onnx.defs.SchemaError:
        return 1


@cache
def _newest_opset() -> int:
    """The newest that the installed onnx and ONNX Runtime both know."""
    for version in range(onnx.defs.onnx_opset_version(), 1, -1):
        chosen = _imports({"": version})
        trial = onnx.ModelProto(ir_version=onnx.helper.find_min_ir_version_for(chosen))
        trial.opset_import.extend(chosen)
        try:
            check_versions(trial, "operator set")
        except ModelError:
            continue
        return version
    return 1


def _type_of(value: NDArray[Any] | list[Any]) -> onnx.TypeProto:
    if isinstance(value, list):
        if not value:
            raise RequestError(
                "the type of an empty sequence is not known", hint="run a model that declares it"
            )
        return onnx.helper.make_sequence_type_proto(_type_of(np.asarray(value[0])))
    strings = value.dtype.kind in "OUT"
    kind = onnx.TensorProto.STRING if strings else onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    return onnx.helper.make_tensor_type_proto(kind, value.shape)
