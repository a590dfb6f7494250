"""Every sentence that a user can read: ``python tools/sentences.py [--rooms ...] [--check]``."""

from __future__ import annotations

import ast
import re
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_CALLS = {"warn": "warning", "echo": "output", "secho": "output", "note": "output"}
_KEYWORDS = {"hint": "hint", "help": "help", "summary": "summary", "title": "title"}
_WORDS = re.compile(r"([A-Za-z]{2}[,;:')]*|[}]) +['($\w{]*[a-z]{2}")
PRIVATE = {
    r"\bkin\b": "device family",
    r"\bdraws?\b(?! (its|idle|full|power)\b)|\bdrawn\b": "samples, sampled",
    r"\bunlike\b": "different, heterogeneous",
    r"\bcarr(y|ies)\b|(?<!loop-)\bcarried\b": "sustains, holds",
    r"\babove (the )?(lower )?bound\b": "gap to the lower bound",
    r"\b(told|heard)\b": "reported",
    r"\bso (many|much|few)\b": "the number",
    r"\bsuch an?\b": "the thing itself",
    r"\bby (it|them)sel(f|ves)\b": "alone, on its own",
    r"\bwhat is left\b": "the rest, the remaining",
    r"\b(is|are|be|been) had\b": "available, possible",
    r"\b(1|one) in (10|ten)\b": "P90",
    r"\banew\b": "again",
    r"\bdear(er|est)?\b": "expensive",
    r"\bmend(s|ed)?\b": "fix",
    r"\b(dealt|deals?) (requests )?out\b": "distributes",
    r"\bsorts? of\b": "kind of",
    r"\bin the place of\b": "instead of",
    r"\bnothing (says|gives|is known|makes|would)\b": "name the subject",
    r"(?<!there )\b(is|are) no (?!longer\b|more\b|less\b)": "is not a",
    r"\bleaves? (\w+ )?away\b": "omit",
    r"\bturns? round\b": "reverse",
    r"\bas good as\b": "equal to",
    r"\bfor (whom|want)\b": "name it",
}
"""Words in a sense of hetsim's own, and what the field writes instead."""

RIDDLES = {
    r"^(What|How|Who|Where|Which|That|Those|For how)\b(?! if\b)": "a noun phrase",
    r"^(Return|Yield|Say|Tell) (what|who)\b": "name what is returned",
}
"""Beginnings of docstrings that name nothing."""

_CODE = re.compile(r"[<>]\w+[ >]|\\[sdwb]|[=;{]\s*$|^\s*[.#]?[\w-]+\s*\{|::|^--|\w\(\)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """Text with ``{}`` for what is filled in, its kind, and its place."""

    path: str
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {self.text}"


def sentences(path: Path) -> Iterator[Sentence]:
    """Yield the texts of a module, a page or a script in their order, then its docstrings."""
    name = path.relative_to(ROOT).as_posix()
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        for number, line in enumerate(source.splitlines(), 1):
            for text in re.findall(r">([^<>]+)<|\"([^\"]+)\"|`([^`]+)`|'([^']+)'", line):
                if _WORDS.search(said := "".join(text)) and not _CODE.search(said):
                    yield Sentence(name, number, "page", said.strip())
        return
    tree = ast.parse(source)
    yield from sorted(_texts(name, tree), key=lambda one: one.line)
    yield from _docstrings(name, tree)


def _docstrings(name: str, tree: ast.Module) -> Iterator[Sentence]:
    """Yield the first lines of docstrings of the module and of public names."""
    if found := ast.get_docstring(tree):
        yield Sentence(name, 1, "docstring", found.splitlines()[0])
    waiting: list[ast.AST] = [tree]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if child.name.startswith("_"):
                continue
            if isinstance(child, ast.ClassDef):
                waiting.append(child)
            if found := ast.get_docstring(child):
                yield Sentence(name, child.lineno, "docstring", found.splitlines()[0])


_WORDLESS: tuple[type[ast.AST], ...] = (ast.Name, ast.expr_context, ast.operator, ast.cmpop)
"""Nodes that hold no literal: half of a tree."""


def _texts(name: str, tree: ast.AST) -> Iterator[Sentence]:
    """Yield literals that read as words, with the kind of what holds them."""
    waiting = [(tree, "text")]
    while waiting:
        node, kind = waiting.pop()
        match node:
            case ast.Constant(value=str()) | ast.JoinedStr():
                text = _with_holes(node) if isinstance(node, ast.JoinedStr) else str(node.value)
                if _WORDS.search(text) and not _CODE.search(text):
                    yield Sentence(name, node.lineno, kind, " ".join(text.split()))
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.ClassDef() | ast.FunctionDef():
                verb = any("command(" in ast.unparse(one) for one in node.decorator_list)
                if verb and (found := ast.get_docstring(node)):
                    yield Sentence(name, node.lineno, "help", " ".join(found.split()))
            case ast.Call(func=ast.Name(id="fields" | "records")):
                continue  # keys of JSON
            case ast.Call():
                callee = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
                error = callee[:1].isupper() and _raises(callee)
                kind = _CALLS.get(callee, "error" if error else kind)
            case ast.keyword(arg=str() as word):
                kind = _KEYWORDS.get(word, kind)
        wordless = _WORDLESS + (ast.Constant,) * isinstance(node, ast.JoinedStr)
        inside = [each for each in ast.iter_child_nodes(node) if not isinstance(each, wordless)]
        waiting += [(each, kind) for each in reversed(inside)]


def _raises(callee: str) -> bool:
    return callee.endswith("Error") or callee in ERRORS


def _with_holes(text: ast.JoinedStr) -> str:
    return "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in text.values)


ERRORS = set(re.findall(r"^class (\w+)", (ROOT / "hetsim/errors.py").read_text(), re.MULTILINE))


def listed(rooms: list[str]) -> Iterator[Sentence]:
    """Yield the sentences of the package, or of some of its rooms."""
    for path in sorted((ROOT / "hetsim").rglob("*")):
        room = path.relative_to(ROOT / "hetsim").parts[0].removesuffix(".py")
        if path.suffix in (".py", ".html", ".js") and (not rooms or room in rooms):
            yield from sentences(path)


def complaints(found: Iterable[Sentence]) -> Iterator[str]:
    """Yield sentences with private words, and what to write instead."""
    for one in found:
        patterns = PRIVATE | RIDDLES if one.kind == "docstring" else PRIVATE
        for pattern, instead in patterns.items():
            if word := re.search(pattern, one.text):
                yield f"{one}\n    '{word[0]}': {instead}"


def main() -> None:
    """Print sentences, one a line; with ``--check``, those with private words, and fail."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", type=lambda text: text.split(","), default=[])
    parser.add_argument("--docstrings", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found = listed(options.rooms)
    if options.check:
        wrong = list(complaints(found))
        print(*wrong, sep="\n")
        raise SystemExit(bool(wrong))
    for one in found:
        if (one.kind == "docstring") == options.docstrings:
            print(one)


if __name__ == "__main__":
    main()
