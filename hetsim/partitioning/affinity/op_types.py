"""Whether an op type exists: a misspelt one in a rule is told."""

from __future__ import annotations

from hetsim.errors import InvalidInput, nearest
from hetsim.problem.problem import Problem


def check_op(problem: Problem, op: str, where: str) -> None:
    """Raise InvalidInput for an op type that neither the problem nor ONNX nor hetsim knows."""
    if op in problem.op_types:
        return
    import onnx.defs

    from hetsim.graph.work import ruled_ops

    standard = (s.name for s in onnx.defs.get_all_schemas() if s.domain == "")
    known = sorted({*problem.op_types, *standard, *ruled_ops()})
    if op not in known:
        raise InvalidInput(f"no op type '{op}'", where=where, hint=nearest(op, known))
