"""Trees as text that is odd where it may be, and texts and bytes changed at a few places."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from random import Random
from typing import Any

TOKENS = (
    b"&a ",
    b"*a ",
    b"<<: *a\n",
    b"!!python/object:os.system ",
    b"!!binary aGk=\n",
    b"!!set {a, b}",
    b"!!float x",
    b"!!int 0b1 ",
    b"? a\n: b\n",
    b"|\n",
    b">-\n  ",
    b"---\n",
    b"...\n",
    b"%YAML 9.9\n",
    b"# c\n",
    b"\t",
    b"- ",
    b": ",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[[[[[[[[[[",
    b"{a: {a: {a: ",
    b"'",
    b'"',
    b"\\",
    b"\\ud800",
    b"\\x1b",
    b"@",
    b"`",
    b".5e999",
    b"5e-999",
    b".inf",
    b"-.Inf",
    b".nan",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1_000",
    b"0x1F",
    b"0o17",
    b"1e400",
    b"2020-01-01",
    b"2020-13-99T99:99:99Z",
    b"12:30:45",
    b"1" * 400,
    b"1" * 5000,
    b"~",
    b"null",
    b"yes",
    b"\x00",
    b"\x1b[31m",
    b"\x7f",
    b"\xc2\x85",
    b"\xc2\x9b",
    b"\xe2\x80\xa8",
    b"\xe2\x80\xae",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r",
    b"\r\n",
    b"\n\n",
    b",",
    b",,",
    b";",
    b"1e5",
    b"-0",
    b"+1",
)

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./%<=-]*")


def as_yaml(rng: Random, tree: Any) -> str:
    """A tree as YAML: blocks or flow, keys plain or quoted, as is drawn."""
    return "".join(_block(rng, tree, 0)) if isinstance(tree, dict) and tree else _flow(rng, tree)


def _block(rng: Random, tree: dict[Any, Any], indent: int) -> list[str]:
    lines = []
    for key, inner in tree.items():
        if isinstance(inner, dict) and len(inner) > 0 and indent < 40 and rng.random() < 0.8:
            lines += [" " * indent + f"{_scalar(rng, key)}:\n", *_block(rng, inner, indent + 2)]
        else:
            lines.append(" " * indent + f"{_scalar(rng, key)}: {_flow(rng, inner)}\n")
    return lines


def _flow(rng: Random, tree: Any) -> str:
    # Without recursion: a tree may be deeper than Python goes.
    done: list[str] = []
    left: list[Any] = [tree]
    while left:
        one = left.pop()
        if isinstance(one, _Text):
            done.append(one)
        elif isinstance(one, dict):
            left.append(_Text("}"))
            for key, inner in reversed(one.items()):
                left += [_Text(", "), inner, _Text(f"{_scalar(rng, key)}: ")]
            left.append(_Text("{"))
        elif isinstance(one, list):
            left.append(_Text("]"))
            for inner in reversed(one):
                left += [_Text(", "), inner]
            left.append(_Text("["))
        else:
            done.append(_scalar(rng, one))
    return "".join(done)


class _Text(str):
    """What is written as it is."""


def _scalar(rng: Random, one: Any) -> str:
    if one is None:
        return rng.choice(("null", "~"))
    if isinstance(one, bool):
        return str(one).lower()
    if isinstance(one, float):
        if math.isinf(one) or math.isnan(one):
            return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}[str(one)]
        return repr(one)
    if isinstance(one, int):
        return _whole(one)
    if _PLAIN.fullmatch(one) and rng.random() < 0.9:
        return str(one)
    return json.dumps(one, ensure_ascii=rng.random() < 0.5)


def _whole(one: int) -> str:
    if abs(one) < 10**4000:
        return str(one)
    sign = "-" if one < 0 else ""
    return sign + "9" * 5000


def as_json(rng: Random, tree: Any) -> str:
    """A tree as JSON, with what Python's own writer says beyond it: NaN, Infinity."""
    try:
        return json.dumps(tree, indent=rng.choice((None, 1)), ensure_ascii=rng.random() < 0.5)
    except (RecursionError, ValueError):
        return _flow(rng, tree)


def encoded(text: str) -> bytes:
    """As UTF-8, halves of pairs as bytes that are none."""
    return text.encode("utf-8", errors="surrogatepass")


def changed(rng: Random, data: bytes, *, most: int = 3) -> bytes:
    """Bytes with up to `most` changes of their text or bits."""
    for _ in range(rng.randint(1, most)):
        data = rng.choice(_CHANGES)(rng, data)
    return data


def _flip(rng: Random, data: bytes) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _one_byte(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + rng.randrange(2) :]


def _cut(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _hole(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.choice((1, 2, 8, 64, 1000)) :]


def _token(rng: Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(TOKENS) * rng.choice((1, 1, 1, 2, 30)) + data[at:]


def _number(rng: Random, data: bytes) -> bytes:
    found = list(re.finditer(rb"-?[0-9][0-9.e+-]*", data))
    if not found:
        return _token(rng, data)
    one = rng.choice(found)
    return data[: one.start()] + rng.choice(TOKENS) + data[one.end() :]


def _line(rng: Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    how = rng.randrange(5)
    if how == 0:
        del lines[at]
    elif how == 1:
        lines.insert(to, lines[at])
    elif how == 2:
        lines[at], lines[to] = lines[to], lines[at]
    elif how == 3:
        lines[at] = b" " * rng.randrange(1, 5) + lines[at]
    else:
        lines[at] = lines[at].lstrip()
    return b"".join(lines)


def _other_encoding(rng: Random, data: bytes) -> bytes:
    how = rng.randrange(5)
    if how == 0:
        return b"\xef\xbb\xbf" + data
    if how == 1:
        return data.decode("latin-1").encode("utf-16")
    if how == 2:
        return data.replace(b"\n", b"\r\n")
    if how == 3:
        return data + data
    return b"" if rng.random() < 0.3 else data.replace(b" ", b"\xc2\xa0", 3)


_CHANGES: tuple[Callable[[Random, bytes], bytes], ...] = (
    _flip,
    _flip,
    _one_byte,
    _cut,
    _hole,
    _token,
    _token,
    _token,
    _number,
    _number,
    _line,
    _line,
    _line,
    _other_encoding,
)
