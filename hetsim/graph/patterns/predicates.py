"""What stands in square brackets in a pattern's text: tests of attributes and of the dtype."""

from __future__ import annotations

import re

from hetsim.errors import nearest
from hetsim.graph.patterns.attributes import AttributeTest, AttributeValue, Scalar
from hetsim.graph.patterns.scanner import NAME, Scanner
from hetsim.graph.patterns.terms import DTYPES

_WORD = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_NONE = re.compile(r"none(?![\w.-])", re.ASCII)
_INTEGER = re.compile(r"[-+]?\d+")
_NUMBER = re.compile(
    r"[-+]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?(?![\w.])", re.ASCII
)
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def read_tests(scanner: Scanner) -> tuple[tuple[AttributeTest, ...], frozenset[str] | None]:
    """Read tests, if there are any here: those of attributes, and the allowed dtypes.

    The dtypes are None where they are not tested. Raises UsageError for what is no test.
    """
    tests: list[AttributeTest] = []
    dtypes: frozenset[str] | None = None
    if not scanner.take("["):
        return (), None
    while True:
        quoted = scanner.match(_QUOTED)
        word = quoted or scanner.match(NAME)
        if word is None:
            raise scanner.expected("the name of an attribute, or 'dtype'")
        negated = scanner.take("!=")
        if not negated:
            scanner.expect("=", "'=' or '!='")
        if quoted is None and word[0] == "dtype":
            given = _dtypes(scanner)
            given = DTYPES - given if negated else given
            dtypes = given if dtypes is None else dtypes & given
        else:
            name = _unquoted(quoted) if quoted else word[0]
            values = [_literal(scanner)]
            while scanner.take("/"):
                values.append(_literal(scanner))
            tests.append(AttributeTest(name, tuple(values), negated))
        if scanner.take("]"):
            return tuple(tests), dtypes
        scanner.expect(",", "',', '/' or ']'")


def _dtypes(scanner: Scanner) -> frozenset[str]:
    found: set[str] = set()
    while not found or scanner.take("/"):
        start = scanner.at
        word = scanner.match(NAME)
        if word is None:
            raise scanner.expected("a dtype such as float32")
        if word[0] not in DTYPES:
            raise scanner.error(f"no dtype {word[0]!r}", start, nearest(word[0], DTYPES))
        found.add(word[0])
    return frozenset(found)


def _literal(scanner: Scanner) -> AttributeValue:
    if scanner.match(_NONE):
        return None
    if not scanner.take("["):
        return _scalar(scanner, "a number, a word, a quoted text, '[' or none")
    entries: list[Scalar] = []
    while not scanner.take("]"):
        if entries:
            scanner.expect(",", "',' or ']'")
        entries.append(_scalar(scanner, "a number, a word or a quoted text"))
    return tuple(entries)


def _scalar(scanner: Scanner, wanted: str) -> Scalar:
    number = scanner.match(_NUMBER)
    if number is not None:
        return int(number[0]) if _INTEGER.fullmatch(number[0]) else float(number[0])
    quoted = scanner.match(_QUOTED)
    if quoted is not None:
        return _unquoted(quoted)
    word = scanner.match(_WORD)
    if word is None:
        raise scanner.expected(wanted)
    return word[0]


def _unquoted(found: re.Match[str]) -> str:
    inner = found[1] if found[1] is not None else found[2]
    return _ESCAPE.sub(r"\1", inner)
