"""Whether the ops and attributes that a pattern names exist in ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from hetsim.errors import UsageError, nearest
from hetsim.graph.patterns.pattern import Pattern
from hetsim.graph.patterns.terms import Op, children


def check_names(pattern: Pattern) -> None:
    """Refuse ops and attributes that ONNX does not have, in any version.

    Only for domains that ONNX itself defines: what another domain has is not known here.
    `parse_pattern` does not ask for it, as loading ONNX takes half a second.

    Raises
    ------
    UsageError
        For an op type, or an attribute that none of the op types beside it has, with the
        nearest that exists.
    """
    where = f"pattern '{pattern.name}'"
    pending = list(reversed(pattern.ends))
    while pending:
        term = pending.pop()
        pending.extend(reversed(children(term)))
        if isinstance(term, Op):
            _check_op(term, where)


def _check_op(op: Op, where: str) -> None:
    allowed: set[str] = set()
    for key in op.types:
        domain, _, name = key.rpartition(":")
        known = _schemas().get(domain)
        if known is None:
            return
        if name not in known:
            hint = nearest(name, known)
            raise UsageError(f"ONNX has no op '{key}'", where=where, hint=hint)
        allowed |= known[name]
    for test in op.attributes:
        if test.name not in allowed:
            raise UsageError(
                f"{'/'.join(op.types)} has no attribute '{test.name}'",
                where=where,
                hint=nearest(test.name, allowed),
            )


@cache
def _schemas() -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Attributes by op type by domain, of all versions."""
    import onnx

    found: dict[str, dict[str, frozenset[str]]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        ops = found.setdefault(schema.domain, {})
        ops[schema.name] = ops.get(schema.name, frozenset()) | frozenset(schema.attributes)
    return found
