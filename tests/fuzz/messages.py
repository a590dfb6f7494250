"""Protobuf messages changed field by field: by what their types say, and by what models mean."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import Message

from fuzz import odd, texts

_WHOLE = {
    Field.TYPE_INT32: (-(2**31), 2**31 - 1),
    Field.TYPE_INT64: (-(2**63), 2**63 - 1),
    Field.TYPE_UINT64: (0, 2**64 - 1),
}
_REAL = (Field.TYPE_FLOAT, Field.TYPE_DOUBLE)
_SIZES = (0, 1, -1, 2, 3, 7, 2**20, 2**31, 2**40, 2**61, 2**62, 2**63 - 1, -(2**63))
_MOST = 300
"""Entries that a repeated field may grow to."""


def mutated(rng: Random, message: Any, donors: tuple[Any, ...], *, most: int = 3) -> Any:
    """A copy of a message with up to `most` changes."""
    copy = type(message)()
    copy.CopyFrom(message)
    for _ in range(min(most, rng.choice((1, 1, 1, 2, 2, 3)))):
        places = [
            (held, field)
            for held in _messages(copy)
            for field in held.DESCRIPTOR.fields
            if field.type in (Field.TYPE_MESSAGE, Field.TYPE_GROUP) or rng.random() < 0.7
        ]
        by_type: dict[str, list[Any]] = {}
        for held, field in places:
            by_type.setdefault(field.full_name, []).append((held, field))
        # What is filled somewhere is drawn more often than what never is.
        filled = [one for one in places if _is_set(*one)]
        how = rng.random()
        if how < 0.55 and filled:
            held, field = rng.choice(filled)
        elif how < 0.85 and filled:
            names = sorted({field.full_name for _, field in filled})
            name = rng.choice(names)
            held, field = rng.choice([one for one in filled if one[1].full_name == name])
        else:
            held, field = rng.choice(by_type[rng.choice(sorted(by_type))])
        _change(rng, copy, held, field, donors)
    return copy


def _repeated(field: Any) -> bool:
    # The name that older protobufs have for it is deprecated in newer ones.
    found = getattr(field, "is_repeated", None)
    return field.label == Field.LABEL_REPEATED if found is None else bool(found)


def _messages(message: Message) -> Iterator[Any]:
    yield message
    for field, value in message.ListFields():
        if field.type == Field.TYPE_MESSAGE:
            for one in value if _repeated(field) else (value,):
                yield from _messages(one)


def _is_set(held: Any, field: Any) -> bool:
    return bool(len(getattr(held, field.name))) if _repeated(field) else held.HasField(field.name)


def _change(rng: Random, root: Any, held: Any, field: Any, donors: tuple[Any, ...]) -> None:
    name = field.name
    if rng.random() < 0.12:
        held.ClearField(name)
    elif _repeated(field):
        _change_entries(rng, root, held, field, donors)
    elif field.type == Field.TYPE_MESSAGE:
        other = _another(rng, root, field, donors)
        if other is not None:
            getattr(held, name).CopyFrom(other)
        else:
            getattr(held, name).SetInParent()
    else:
        setattr(held, name, _scalar(rng, root, field, getattr(held, name), donors))


def _change_entries(rng: Random, root: Any, held: Any, field: Any, donors: tuple[Any, ...]) -> None:
    entries = getattr(held, field.name)
    how = rng.randrange(7)
    at = rng.randrange(len(entries)) if entries else 0
    if how == 0 and entries:
        del entries[at]
    elif how == 1 and entries:
        to = rng.randrange(len(entries))
        kept = list(entries)
        kept[at], kept[to] = kept[to], kept[at]
        _fill(held, field, kept)
    elif how == 2 and entries and len(entries) < _MOST:
        for _ in range(rng.choice((1, 1, 2, 40))):
            _append(entries, field, entries[at])
    elif field.type == Field.TYPE_MESSAGE:
        other = _another(rng, root, field, donors)
        if other is None:
            entries.add()
        elif entries and rng.random() < 0.5:
            entries[at].CopyFrom(other)
        elif len(entries) < _MOST:
            entries.add().CopyFrom(other)
    else:
        was = entries[at] if entries else field.default_value or _zero(field)
        new = _scalar(rng, root, field, was, donors)
        if entries and how < 6:
            entries[at] = new
        else:
            entries.append(new)


def _fill(held: Any, field: Any, kept: list[Any]) -> None:
    if field.type == Field.TYPE_MESSAGE:
        copies = []
        for one in kept:
            copy = type(one)()
            copy.CopyFrom(one)
            copies.append(copy)
        kept = copies
    held.ClearField(field.name)
    getattr(held, field.name).extend(kept)


def _append(entries: Any, field: Any, one: Any) -> None:
    if field.type == Field.TYPE_MESSAGE:
        entries.add().CopyFrom(one)
    else:
        entries.append(one)


def _another(rng: Random, root: Any, field: Any, donors: tuple[Any, ...]) -> Any:
    """A message of the field's type, from this model or another one."""
    source = rng.choice(donors) if donors and rng.random() < 0.4 else root
    wanted = field.message_type.full_name
    found = [one for one in _messages(source) if one.DESCRIPTOR.full_name == wanted]
    if not found:
        return None
    copy = type(found[0])()
    copy.CopyFrom(rng.choice(found))
    return copy


def _zero(field: Any) -> Any:
    return {Field.TYPE_STRING: "", Field.TYPE_BYTES: b""}.get(field.type, 0)


def _scalar(rng: Random, root: Any, field: Any, was: Any, donors: tuple[Any, ...]) -> Any:
    if field.type == Field.TYPE_STRING:
        return _name(rng, root, was, donors)
    if field.type == Field.TYPE_BYTES:
        return texts.changed(rng, was) if rng.random() < 0.7 else bytes(rng.choice((0, 1, 4, 4096)))
    if field.type == Field.TYPE_ENUM:
        return rng.choice(field.enum_type.values).number
    if field.type in _REAL:
        # What a float cannot hold, Python's protobuf does not take.
        return (
            max(-3e38, min(3e38, float(rng.choice(odd.REAL))))
            if rng.random() < 0.7
            else float("nan")
        )
    least, most = _WHOLE[field.type]
    how = rng.random()
    if how < 0.3:
        new = rng.randrange(-1, 30)
    elif how < 0.5:
        new = was + rng.choice((1, -1, 2, was, -2 * was))
    else:
        new = rng.choice(_SIZES)
    return max(least, min(most, new))


def _name(rng: Random, root: Any, was: str, donors: tuple[Any, ...]) -> str:
    """Mostly a text that the model, or another, has elsewhere: edges, ops, domains, dims."""
    if rng.random() < 0.65:
        source = rng.choice(donors) if donors and rng.random() < 0.4 else root
        found = sorted(set(_strings(source)))
        if found:
            return rng.choice(found)
    new = odd.text(rng, was)
    return new.encode("utf-8", errors="replace").decode()


def _strings(message: Any) -> Iterator[str]:
    for held in _messages(message):
        for field, value in held.ListFields():
            if field.type == Field.TYPE_STRING:
                yield from value if _repeated(field) else (value,)
