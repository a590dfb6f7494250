"""YAML with lines: scalars of YAML 1.2, keys on their lines, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hetsim.errors import PlatformError
from hetsim.hardware.files.yaml_source import Complaint, YamlFile, read_yaml
from sweeps import examples, sweep


def source_of(tmp_path: Path, text: str) -> YamlFile:
    path = tmp_path / "some.yaml"
    path.write_text(text, encoding="utf-8")
    return read_yaml(path, "some.yaml")


def test_scalars_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    text = "a: [1, 1e9, 1.5e-3, -.5, no, on, 010, 1:30, true, ~, '5', 2026-01-01, .inf]\n"
    data = source_of(tmp_path, text).data["a"]
    expected = [1, 1e9, 1.5e-3, -0.5, "no", "on", 10, "1:30", True, None, "5", "2026-01-01"]
    assert data == [*expected, math.inf]
    assert type(data[1]) is float


@pytest.mark.parametrize(
    "text", ["1_000", "1__0", "_1", "1_", "1_0.5", "1e1_0", "0x10", "0o10", "0b1", "1,000", "+-1"]
)
def test_what_yaml_1_2_calls_no_number_is_text(tmp_path: Path, text: str) -> None:
    """Python and YAML 1.1 would take most of them for numbers."""
    assert source_of(tmp_path, f"a: {text}\n").data["a"] == text


def test_lines_are_those_of_the_keys_and_items(tmp_path: Path) -> None:
    source = source_of(
        tmp_path, "# top\na:\n  b: 1\n\n  c:\n    - x\n    - {d: 2,\n       e: 3}\nf: 4\n"
    )
    assert source.line(("a",)) == 2
    assert source.line(("a", "b")) == 3
    assert source.line(("a", "c", 0)) == 6
    assert source.line(("a", "c", 1, "d")) == 7
    assert source.line(("a", "c", 1, "e")) == 8
    assert source.line(("f",)) == 9


def test_line_of_what_is_absent_is_that_of_what_should_hold_it(tmp_path: Path) -> None:
    source = source_of(tmp_path, "\na:\n  b: 1\n")
    assert source.line(("a", "z", 3)) == 2
    assert source.line(("z",)) == 2


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "empty"),
        ("---\n...\n", 1, "empty"),
        ("just text\n", 1, "is not a mapping"),
        ("a: &x [*x]\n", 1, "contain themselves"),
        ("a: " + "[" * 5000 + "]" * 5000, 1, "nested too deep"),
        ("[" * 50_000, 1, "nested too deep"),  # libyaml's own tree would overrun the stack
        ("a:\n  " + "- " * 50_000, 2, "nested too deep"),
        ("{a: " * 50_000, 1, "nested too deep"),
        ("a: 1\n---\nb: 2\n", 2, "another document"),
        ("a: 1\nb: \x00\n", 2, "control characters"),
        ("a: 1\n? [b]\n: 2\n", 2, "not text"),
        ("a: 1\nb: !!int three\n", 2, "'three' is not of type int"),
        ("a: 1\nb: !own 3\n", 2, "!own"),
        ("a: 1\nb: " + "9" * 5000, 2, "not of type int"),
        ("a: {b: 1, b: 2}\n", 1, "'b' appears twice"),
    ],
)
def test_what_is_no_plain_mapping_is_refused(
    tmp_path: Path, text: str, line: int, what: str
) -> None:
    with pytest.raises(PlatformError) as caught:
        source_of(tmp_path, text)
    assert what in str(caught.value)
    where = caught.value.where
    assert where is not None
    assert where.startswith("some.yaml:")
    # Where a broken file stops making sense is the parser's to say: at its line, or just after.
    assert line <= int(where.rsplit(":", 1)[1]) <= line + 1


def test_aliases_that_expand_without_end_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(PlatformError, match="values; use fewer aliases"):
        source_of(tmp_path, "\n".join(lines))


def test_directory_missing_and_binary_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="this is a directory"):
        read_yaml(tmp_path)
    with pytest.raises(PlatformError, match="no such file"):
        read_yaml(tmp_path / "none.yaml")
    binary = tmp_path / "model.onnx"
    binary.write_bytes(b"\x08\x0a\xff\xfe\x80")
    with pytest.raises(PlatformError, match="not UTF-8"):
        read_yaml(binary)


def test_device_file_of_the_system_is_not_read() -> None:
    with pytest.raises(PlatformError, match="not a regular file"):
        read_yaml(Path("/dev/zero"))


def test_refuse_raises_the_first_and_counts_the_rest(tmp_path: Path) -> None:
    source = source_of(tmp_path, "a: 1\n")
    source.refuse([])
    many = [Complaint(9, "late"), Complaint(2, "first", "mend it"), Complaint(4, "next")]
    with pytest.raises(PlatformError) as caught:
        source.refuse([*many, Complaint(9, "late")])
    assert str(caught.value) == "some.yaml:2: first; mend it (and 2 more on lines 4, 9)"


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False)
    | st.text("abc xyz_-.é'\"#:", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcd", min_size=1), inner),
    max_leaves=12,
)


@examples(quick=15, full=60)
@given(st.dictionaries(st.text("abcd", min_size=1), PLAIN, min_size=1))
def test_what_json_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, data: object
) -> None:
    # YAML 1.2 contains JSON, so an independent writer of JSON is a writer of YAML.

    path = tmp_path_factory.getbasetemp() / "round.yaml"
    text = json.dumps(data, indent=1).replace("Infinity", ".inf")
    path.write_text(text, encoding="utf-8")
    assert read_yaml(path).data == data


CATALOG = sorted((Path(__file__).parents[2] / "devices").rglob("*.yaml"))


@sweep("path", quick=CATALOG[::25], full=CATALOG)
def test_catalog_reads_the_same_with_pyyaml_alone(path: Path) -> None:
    with path.open(encoding="utf-8") as file:
        assert read_yaml(path).data == yaml.safe_load(file)
