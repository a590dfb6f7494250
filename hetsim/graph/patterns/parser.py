r"""Parser of patterns from text.

Grammar
-------
White space between words does not count. Words in capitals are explained below. ::

    pattern  = choice (";" choice)*            its ends; the first is where a match is sought
    choice   = term ("|" term)*                alternatives
    term     = "$" NAME ":" node               a node with a label
             | "$" NAME ":" value              a value with a label
             | "$" NAME ["." PORT]             that node's output, or that value
             | node | value | "_"
             | "(" choice ")"
    node     = OP ("/" OP)* suffix* ["(" [choice ("," choice)*] ")"]
    suffix   = tests | "." PORT | FLAG         each at most once, in any order
    value    = ("*" | "const") [tests]         any value; a value stored with the model
    tests    = "[" test ("," test)* "]"
    test     = (NAME | QUOTED) ("=" | "!=") literal ("/" literal)*
    literal  = scalar | "[" [scalar ("," scalar)*] "]" | "none"
    scalar   = NUMBER | WORD | QUOTED

- ``OP`` is an op type, with its domain before it where that is not the standard's:
  ``Relu``, ``com.microsoft:Gelu``. ``Clip/Relu`` is one of the two.
- What stands in a node's brackets are its inputs by port. Ports that are not given are free,
  and so are all without brackets. ``*`` is a value that is present, ``_`` also an absent one.
  Inputs of the ops in ``hetsim.graph.patterns.pattern.SYMMETRIC`` may stand in any order.
- ``.PORT`` is the output that is read, counted from 0, which is the default.
- ``FLAG`` is ``?`` (optional: in the node's absence its first input stands there), ``!``
  (others may read the node's outputs too), ``~`` (inputs in any order), ``^`` (inputs in the
  given order).
- ``$x`` stands for one value wherever it is written, or where ``$x:Op`` gives it to a node for
  an output of that node, by default the one at ``$x:Op``. Nodes without a common label are
  different nodes.
- A test is of an attribute: it has one of the given values, or none of them (``!=``). What a
  node does not state has the default of the op's schema, and without one is ``none``. The test
  of ``dtype`` is of the element type of the value that is read; ``"dtype"`` in quotes is the
  attribute of that name.
- ``WORD`` is text of letters, digits and ``_``, ``-``, ``.``, not first a digit; ``QUOTED`` is
  any text in single or double quotes, with ``\`` before a quote or ``\`` in it.

Examples: ``Relu(BatchNormalization(Conv))``, ``Clip/Relu?(Add(MatMul, const))``,
``Mul($x, Sigmoid($x))``, ``Add(Add($x, $t), $t:Add($x, *))``, ``Relu($c:Conv); Sigmoid($c)``,
``Add(MatMul) | Clip(Add(MatMul))``, ``Conv[group=1, auto_pad!=SAME_LOWER, dtype=float16]!``.
"""

from __future__ import annotations

import re

from hetsim.errors import UsageError, nearest
from hetsim.graph.patterns.pattern import (
    DTYPES,
    MOST_LEVELS,
    AttributeTest,
    AttributeValue,
    Either,
    Maybe,
    Op,
    Pattern,
    Reference,
    Scalar,
    Term,
    Wild,
    WildConstant,
)

NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SPACE = re.compile(r"\s*")
_SHOWN = 60


class Scanner:
    """Text with a current position; white space between words is ignored."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self.at = 0
        self._skip()

    def peek(self, symbol: str) -> bool:
        """Return whether `symbol` comes next."""
        return self._text.startswith(symbol, self.at)

    def take(self, symbol: str) -> bool:
        """Skip `symbol` if it comes next; return whether it did."""
        if not self.peek(symbol):
            return False
        self.at += len(symbol)
        self._skip()
        return True

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Skip text that the regular expression `pattern` matches here, if it does."""
        found = pattern.match(self._text, self.at)
        if found is not None:
            self.at = found.end()
            self._skip()
        return found

    def expect(self, symbol: str, wanted: str) -> None:
        """Skip `symbol`, or raise UsageError with the expected text."""
        if not self.take(symbol):
            raise self.expected(wanted)

    def at_end(self) -> bool:
        """Return whether the text has ended."""
        return self.at == len(self._text)

    def expected(self, wanted: str) -> UsageError:
        """Return the error that something else was expected here."""
        found = "the end of the text" if self.at_end() else repr(self._text[self.at])
        return self.error(f"expected {wanted}, found {found}")

    def error(self, what: str, at: int | None = None, hint: str | None = None) -> UsageError:
        """Return an error about a position, by default the current one."""
        at = self.at if at is None else at
        before, after = self._text[:at], self._text[at:]
        if len(before) > _SHOWN:
            before = "..." + before[-_SHOWN:]
        if len(after) > _SHOWN:
            after = after[:_SHOWN] + "..."
        shown = " ".join(f"{before}<here>{after}".split())
        return UsageError(
            f"{what} at character {at + 1}: {shown}", where=f"pattern '{self._name}'", hint=hint
        )

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self.at)
        self.at = self.at if found is None else found.end()


_WORD = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_NONE = re.compile(r"none(?![\w.-])", re.ASCII)
_INTEGER = re.compile(r"[-+]?\d+")
_NUMBER = re.compile(
    r"[-+]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][-+]?\d{1,3})?(?![\w.])", re.ASCII
)
_QUOTED = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def read_tests(scanner: Scanner) -> tuple[tuple[AttributeTest, ...], frozenset[str] | None]:
    """Return tests of attributes, and the allowed dtypes or None; UsageError for anything else."""
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


_OP = re.compile(r"(?:[A-Za-z_][\w.-]*:)?[A-Za-z_]\w*", re.ASCII)
_CONST = re.compile(r"const(?![\w.:/])", re.ASCII)
_ABSENT = re.compile(r"_(?!\w)(?![.:/])", re.ASCII)
_PORT = re.compile(r"\.(\d{1,6})(?!\d)", re.ASCII)
_A_TERM = "an op type, '*', '_', 'const', '$label' or '('"
_FLAGS = "?!~^"
_MOST_SHOWN = 120


def parse_pattern(name: str, text: str) -> Pattern:
    """Return the pattern that a text describes, with its text. O(length).

    Raises UsageError if the text violates the grammar of this module, with the position and the
    expected text, or if the pattern violates a rule of `Pattern`.
    """
    if not isinstance(text, str):
        raise UsageError(
            f"{text!r} is not text", where=f"pattern '{name}'", hint="write it as Relu(Conv), say"
        )
    labels: dict[str, Op] = {}
    _Parser(Scanner(name, text), None, labels).pattern()
    # Whether $x is a node or a value is known only after the whole text.
    ends = _Parser(Scanner(name, text), frozenset(labels), {}).pattern()
    try:
        return Pattern(name, ends, text=text)
    except UsageError as error:
        shown = " ".join(text.split())
        where = f"pattern '{name}' ({shown[:_MOST_SHOWN]}{'...' * (len(shown) > _MOST_SHOWN)})"
        raise UsageError(error.what, where=where, hint=error.hint) from error


class _Parser:
    """Recursive-descent parser; `node_labels` are those of nodes, collected in `described`."""

    def __init__(
        self, scanner: Scanner, node_labels: frozenset[str] | None, described: dict[str, Op]
    ) -> None:
        self._scanner = scanner
        self._node_labels = node_labels
        self._described = described
        self._level = 0

    def pattern(self) -> tuple[Term, ...]:
        """Return all ends, up to the end of the text."""
        ends = [self._choice()]
        while self._scanner.take(";"):
            ends.append(self._choice())
        if not self._scanner.at_end():
            raise self._scanner.expected("';', '|' or the end of the text")
        return tuple(ends)

    def _choice(self) -> Term:
        self._level += 1
        if self._level > MOST_LEVELS:
            raise self._scanner.error(
                f"more than {MOST_LEVELS} brackets are open", hint="split the pattern"
            )
        terms = [self._term()]
        while self._scanner.take("|"):
            terms.append(self._term())
        self._level -= 1
        return terms[0] if len(terms) == 1 else Either(tuple(terms))

    def _term(self) -> Term:
        scanner = self._scanner
        if scanner.take("("):
            term = self._choice()
            scanner.expect(")", "'|' or ')'")
            return term
        if scanner.peek("$"):
            return self._labelled()
        if scanner.match(_ABSENT):
            return Wild(optional=True)
        return self._value("") or self._node("")

    def _labelled(self) -> Term:
        scanner = self._scanner
        start = scanner.at
        scanner.take("$")
        found = scanner.match(NAME)
        if found is None:
            raise scanner.expected("the name of a label")
        label = found[0]
        if scanner.take(":"):
            value = self._value(label)
            if value is not None:
                return value
            node = self._node(label)
            if isinstance(node, Maybe):
                raise scanner.error(f"optional node ${label} cannot have a label", start)
            if self._described.setdefault(label, node) != node:
                raise scanner.error(
                    f"${label} describes two nodes",
                    start,
                    (f"write ${label} alone to refer to the first"),
                )
            return node
        port = scanner.match(_PORT)
        if self._node_labels is None or (port is None and label not in self._node_labels):
            return Wild(label)
        if label not in self._node_labels:
            raise scanner.error(
                f"no node has label ${label}", start, nearest(label, self._node_labels)
            )
        return Reference(label, int(port[1]) if port else None)

    def _value(self, label: str) -> Term | None:
        scanner = self._scanner
        kind: type[Wild | WildConstant]
        if scanner.take("*"):
            kind = Wild
        elif scanner.match(_CONST):
            kind = WildConstant
        else:
            return None
        start = scanner.at
        tests, dtypes = read_tests(scanner)
        if tests:
            raise scanner.error(
                f"a value has no attribute {tests[0].name!r}", start, "test only its dtype"
            )
        return kind(label, dtypes)

    def _node(self, label: str) -> Op | Maybe:
        scanner = self._scanner
        types = [self._op_type(_A_TERM if not label else "an op type, '*' or 'const'")]
        while scanner.take("/"):
            types.append(self._op_type("an op type"))
        tests: tuple[AttributeTest, ...] = ()
        dtypes: frozenset[str] | None = None
        port = 0
        given = ""
        while True:
            at = scanner.at
            if scanner.peek("["):
                tests, dtypes = read_tests(scanner)
                kind = "["
            elif found := scanner.match(_PORT):
                port, kind = int(found[1]), "."
            elif not (kind := next((flag for flag in _FLAGS if scanner.take(flag)), "")):
                break
            if kind in given or {"~", "^"} <= {*given, kind}:
                raise scanner.error(f"{kind!r} repeats or contradicts the test before it", at)
            given += kind
        inputs = self._inputs()
        op = Op(
            tuple(types),
            inputs,
            label,
            attributes=tests,
            dtypes=dtypes,
            port=port,
            any_order=True if "~" in given else False if "^" in given else None,
            shared="!" in given,
        )
        if "?" not in given:
            return op
        if not inputs:
            raise scanner.expected("'(' and the input that replaces the optional node")
        return Maybe(op)

    def _op_type(self, wanted: str) -> str:
        found = self._scanner.match(_OP)
        if found is None:
            raise self._scanner.expected(wanted)
        return found[0]

    def _inputs(self) -> tuple[Term, ...]:
        scanner = self._scanner
        if not scanner.take("("):
            return ()
        inputs: list[Term] = []
        while not scanner.take(")"):
            if inputs:
                scanner.expect(",", "',', '|' or ')'")
            inputs.append(self._choice())
        return tuple(inputs)
