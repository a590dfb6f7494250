"""Ten thousand broken files, a tenth each time: each is refused, or is what it says it is."""

from __future__ import annotations

import json
import random
import resource
from collections import Counter
from collections.abc import Callable
from typing import Any

import onnx
import pytest

from artifact_builders import (
    MODELS,
    exported,
    inputs_of,
    parts_of,
    put_together,
    read,
    whole,
)
from hetsim.device.artifact.layout import canonical_json
from hetsim.device.artifact.trial import Trial
from hetsim.device.artifact.values import describe
from hetsim.errors import ArtifactError
from onnx_builders import assert_bitwise_equal
from sweeps import sweep

BLIND, KNOWING = 7000, 3000
"""Files broken by chance, and those whose sizes and digest were put right again."""
TENTHS = range(10)

INTEGERS = (0, 1, -1, 2, 3, 7, 64, 127, 255, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
TEXTS = (
    "", "x", "y", "weights", "../weights", "/etc/passwd", "*/_ORT_MEM_ADDR_/*", "0", "64", "Relu",
    "Loop", "LSTM", "Identity", "com.microsoft", "ai.onnx.ml", "EPContext", "f" * 300,
)  # fmt: skip
Chance = random.Random


def flip(data: bytes, chance: Chance) -> bytes:
    wrong = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8))):
        wrong[chance.randrange(len(wrong))] ^= 1 << chance.randrange(8)
    return bytes(wrong)


def cut(data: bytes, chance: Chance) -> bytes:
    return data[: chance.randrange(len(data))]


def splice(data: bytes, chance: Chance) -> bytes:
    """Move, repeat, drop or insert a piece."""
    start, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    there = chance.randrange(len(data) + 1)
    piece = chance.choice((data[start:end], chance.randbytes(chance.randrange(1, 40)), b""))
    return chance.choice(
        (data[:there] + piece + data[there:], data[:start] + piece + data[end:], data + piece)
    )


def number(data: bytes, chance: Chance) -> bytes:
    """Write an extreme number over one, most often over a size at the start."""
    width = chance.choice((4, 8))
    place = chance.choice((8, 12, 16, 24, chance.randrange(len(data) - 8)))
    value = chance.choice(INTEGERS) % 2 ** (8 * width)
    return data[:place] + value.to_bytes(width, "little") + data[place + width :]


def header_edit(data: bytes, chance: Chance) -> bytes:
    header, content, weights = parts_of(data)
    record = json.loads(header)
    where: Any = record
    while isinstance(where, dict | list) and where:
        keys = sorted(where) if isinstance(where, dict) else range(len(where))
        key = chance.choice(list(keys))
        if isinstance(where[key], dict | list) and where[key] and chance.random() < 0.7:
            where = where[key]
            continue
        other = (None, True, [], {}, -1, 2**70, 1.5, *TEXTS, *INTEGERS)
        if isinstance(where, dict) and chance.random() < 0.2:
            del where[key]
        else:
            where[key] = chance.choice(other)
        break
    return put_together(canonical_json(record), content, weights)


def header_bytes(data: bytes, chance: Chance) -> bytes:
    header, content, weights = parts_of(data)
    return put_together(chance.choice((flip, cut, splice))(header, chance), content, weights)


def graph_bytes(data: bytes, chance: Chance) -> bytes:
    header, content, weights = parts_of(data)
    return put_together(header, chance.choice((flip, cut, splice))(content, chance), weights)


def weight_bytes(data: bytes, chance: Chance) -> bytes:
    header, content, weights = parts_of(data)
    if not weights:
        return put_together(header, content, chance.randbytes(64))
    return put_together(header, content, chance.choice((flip, cut, splice))(weights, chance))


def graph_edit(data: bytes, chance: Chance) -> bytes:
    """Another graph, and a header that says what goes in and out of it now."""
    header, content, weights = parts_of(data)
    proto = onnx.ModelProto.FromString(content)
    for _ in range(chance.choice((1, 1, 2))):
        _edit(proto, chance)
    record = json.loads(header)
    try:
        record["inputs"] = [value.record() for value in describe(proto.graph.input)]
        record["outputs"] = [value.record() for value in describe(proto.graph.output)]
        header = canonical_json(record)
    except ValueError:
        pass  # no header describes it: the old one stays
    return put_together(header, proto.SerializeToString(deterministic=True), weights)


def _edit(message: Any, chance: Chance) -> None:
    """Change one field somewhere below `message`."""
    while fields := message.ListFields():
        field, value = chance.choice(fields)
        many = hasattr(value, "extend")
        if field.type != field.TYPE_MESSAGE:
            _set(message, field, value, many, chance)
            return
        if not many:
            message = value
        elif chance.random() < 0.85:
            message = chance.choice(list(value))
        else:
            place = chance.randrange(len(value))
            if chance.random() < 0.5:
                del value[place]
            else:
                value.add().CopyFrom(value[place])
            return


def _set(message: Any, field: Any, value: Any, many: bool, chance: Chance) -> None:
    old = value[0] if many else value
    new: Any
    if field.type == field.TYPE_STRING:
        new = chance.choice(TEXTS)
    elif field.type == field.TYPE_BYTES:
        new = flip(old, chance) if old else b"x"
    elif field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        new = chance.choice((0.0, -1.0, float("nan"), float("inf"), 1e30))
    elif field.type == field.TYPE_ENUM:
        new = chance.choice([entry.number for entry in field.enum_type.values])
    else:
        bits = 32 if field.type == field.TYPE_INT32 else 64
        new = chance.choice([n for n in INTEGERS if -(2 ** (bits - 1)) <= n < 2 ** (bits - 1)])
        new = max(new, 0) if field.type == field.TYPE_UINT64 else new
    if not many:
        setattr(message, field.name, new)
    elif chance.random() < 0.3:
        value.append(new)
    else:
        value[chance.randrange(len(value))] = new


BLIND_WAYS: tuple[Callable[[bytes, Chance], bytes], ...] = (flip, flip, cut, splice, number)
KNOWING_WAYS = (header_edit, header_bytes, graph_bytes, weight_bytes, graph_edit, graph_edit)


@pytest.mark.slow
@sweep("tenth", quick=[0], full=TENTHS)
def test_broken_files_are_refused_or_are_what_they_say(tenth: int) -> None:
    originals = {name: exported(build()) for name, build in MODELS.items()}
    right = {name: whole(build(), inputs_of(name)) for name, build in MODELS.items()}
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tally: Counter[str] = Counter()
    with Trial() as trial:
        for turn in range(tenth, BLIND + KNOWING, len(TENTHS)):
            chance = random.Random(turn)
            name = chance.choice(list(originals))
            original = originals[name]
            knowing = turn >= BLIND
            wrong = chance.choice(KNOWING_WAYS if knowing else BLIND_WAYS)(original, chance)
            try:
                artifact = read(wrong)
            except ArtifactError:
                tally["refused when read"] += 1
                continue
            # The digest alone finds whatever does not take it anew.
            assert knowing or wrong == original
            with artifact:
                for tensor in artifact.proto.graph.initializer:
                    places = [e.value for e in tensor.external_data if e.key == "location"]
                    assert places in ([], ["weights"])
                try:
                    compiled = artifact.open(trial)
                except ArtifactError:
                    tally["refused when opened"] += 1
                    continue
            header = artifact.header
            assert compiled.input_names == tuple(value.name for value in header.inputs)
            assert compiled.output_names == tuple(value.name for value in header.outputs)
            if parts_of(wrong)[1:] == parts_of(original)[1:]:
                assert_bitwise_equal(compiled.run(inputs_of(name)), right[name])
                tally["the same"] += 1
            else:
                tally["another model"] += 1
    after_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after_kib - before_kib < 2**19
    assert tally.total() == (BLIND + KNOWING) // len(TENTHS)
    # All four ends occur, so that none of the checks above was idle.
    assert set(tally) == {"refused when read", "refused when opened", "the same", "another model"}
