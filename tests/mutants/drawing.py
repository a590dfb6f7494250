"""Which small mistakes are put into which line: drawn by seed, made by cosmic-ray's operators."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from parso.tree import NodeOrLeaf

_NOTHING_SEEN = frozenset({"strict", "frozen", "slots", "eq", "compare", "repr"})
"""Keywords whose flags check, or save, and change no answer."""

_NOTHING_DONE = frozenset({"cache", "overload"})
"""Decorators that only save time, or are for types."""

_TUNED_FROM = 32
"""Constants of a file from here on are limits and budgets: one more or less is no mistake."""

_ALIKE = ("_Eq_Is", "_NotEq_IsNot", "_Is_Eq", "_IsNot_NotEq")
"""By identity in place of by value: the same for small whole numbers, and for None."""

_ARITHMETIC = frozenset({"arith_expr", "term", "shift_expr", "power", "factor", "atom"})

_OPERATORS = tuple(
    name
    for name in operator_names()
    # What it inserts depends on names that it is given.
    if not get_operator(name).arguments()
    and "no_op" not in name.lower()
    and not name.endswith(_ALIKE)
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake.

    Attributes
    ----------
    path : str
        From the root of the repository.
    line : int
        From 1.
    was, now : str
        The lines that it changes, before and after, without the spaces around them.
    operator : str
    text : str
        The whole file with the mistake.
    """

    path: str
    line: int
    was: str
    now: str
    operator: str
    text: str

    @property
    def key(self) -> tuple[str, str, str]:
        """By which it is known again after other lines have changed."""
        return self.path, self.was, self.now


def drawn(files: Sequence[Path], root: Path, count: int, seed: int) -> Iterator[Mutant]:
    """Yield `count` mutants of `files`, the same for the same seed and files.

    A file is drawn by its length, a place in it evenly, then one of the operators that apply
    there: otherwise comparisons, with nine ways to go wrong, would be nearly all there is.
    """
    random_ = random.Random(f"{seed} {' '.join(path.name for path in files)}")
    sizes = [path.read_text().count("\n") for path in files]
    seen: set[tuple[str, int, str]] = set()
    missed = 0
    while count and missed < 100:
        (path,) = random_.choices(files, sizes)
        text = path.read_text()
        places = _places(text)
        if not places:
            missed += 1
            continue
        where = random_.choice(sorted(places))
        operator, occurrence = random_.choice(places[where])
        mutated = mutate_code(text, get_operator(operator)(), occurrence)
        found = None
        if mutated is not None and _is_python(mutated):
            found = _mutant(path, root, operator, text, mutated)
        if found is None or (found.path, found.line, found.now) in seen:
            missed += 1
            continue
        seen.add((found.path, found.line, found.now))
        count -= 1
        yield found


def _places(text: str) -> dict[tuple[tuple[int, int], tuple[int, int]], list[tuple[str, int]]]:
    """By start and end: the operators that apply, and which of their occurrences it is."""
    nodes = list(ast_nodes(get_ast(text)))
    found: dict[tuple[tuple[int, int], tuple[int, int]], list[tuple[str, int]]] = {}
    for name in _OPERATORS:
        operator = get_operator(name)()
        positions = (
            (node, *place) for node in nodes for place in operator.mutation_positions(node)
        )
        for occurrence, (node, start, end) in enumerate(positions):
            if _is_seen(node):
                found.setdefault((start, end), []).append((name, occurrence))
    return found


def _is_seen(node: NodeOrLeaf) -> bool:
    """Whether a mistake there could be seen at all: no type, nothing of the kinds above."""
    if node.type == "decorator" and node.get_code().split(".")[-1].strip(" @\n") in _NOTHING_DONE:
        return False
    # What it guards is imported for types alone.
    if node.type == "if_stmt" and node.children[1].get_code().strip() == "TYPE_CHECKING":
        return False
    inner, outer = node, node.parent
    while outer is not None:
        kind = outer.type
        if kind in ("annassign", "tfpdef", "param") and _is_annotation(inner, outer):
            return False
        if kind == "funcdef" and outer.annotation is inner:
            return False
        if kind == "argument" and outer.children[0].get_code().strip() in _NOTHING_SEEN:
            return False
        if kind == "expr_stmt" and outer.parent.parent is not None:
            top = outer.parent.parent.type == "file_input"
            if top and node.type == "number" and _is_tuned(node):
                return False
        inner, outer = outer, outer.parent
    return True


def _is_python(text: str) -> bool:
    """Whether it can be read: two stars before keywords are taken for a power, too."""
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _is_annotation(inner: NodeOrLeaf, outer: NodeOrLeaf) -> bool:
    children = outer.children
    at = next(place for place, child in enumerate(children) if child is inner)
    return at > 0 and children[at - 1].type == "operator" and children[at - 1].value == ":"


def _is_tuned(number: NodeOrLeaf) -> bool:
    """Whether a number, or what is computed of it and other numbers, is a limit or a budget."""
    whole = number
    while whole.parent is not None and whole.parent.type in _ARITHMETIC:
        whole = whole.parent
    try:
        formula = ast.parse(whole.get_code().strip(), mode="eval")
        if any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(formula)):
            formula = ast.parse(number.get_code().strip(), mode="eval")
        return float(eval(compile(formula, "", "eval"))) >= _TUNED_FROM
    except (SyntaxError, TypeError, ValueError, ArithmeticError):
        return False


def _mutant(path: Path, root: Path, operator: str, text: str, mutated: str) -> Mutant | None:
    before, after = text.splitlines(), mutated.splitlines()
    same = next((k for k, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    if same is None:
        return None
    behind = 0
    while before[-1 - behind] == after[-1 - behind] and behind < len(before) - same - 1:
        behind += 1
    was = " ".join(line.strip() for line in before[same : len(before) - behind])
    now = " ".join(line.strip() for line in after[same : len(after) - behind])
    name = operator.partition("/")[2]
    return Mutant(path.relative_to(root).as_posix(), same + 1, was, now, name, mutated)
