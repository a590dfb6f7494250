"""Option values: what is accepted, and that a refusal names the option and its form."""

from __future__ import annotations

from collections import defaultdict

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_calls import call, commands, refused
from hetsim.core.units import parse_per_s, parse_seconds


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--dim", "batch", "NAME=N"),
        ("--dim", "batch=-0", "NAME=N"),
        ("--dim", "batch=-1", "NAME=N"),
        ("--dim", "batch=1.5", "NAME=N"),
        ("--dim", "batch=\u0663", "NAME=N"),
        ("--dim", "=3", "NAME=N"),
        ("--dim", "batch=9999999999999999999", "NAME=N"),
        ("--shape", "x", "NAME=D,D,..."),
        ("--shape", "x=a,b", "NAME=D,D,..."),
        ("--shape", "x=1,,2", "NAME=D,D,..."),
        ("--shape", "x=1,-1", "NAME=D,D,..."),
        ("--shape", "=1,2", "NAME=D,D,..."),
        ("--canonical", "all", "'none', 'basic', 'extended'"),
        ("--contention", "lifo", "'fifo', 'none'"),
        ("--requests", "0", "x>=1"),
        ("--requests", "two", "two"),
        ("--interval", "5", "'5' has no unit; write e.g. 5s"),
        ("--interval", "-1s", "is not a duration"),
        ("--interval", "nan", "nan"),
    ],
)
def test_a_wrong_value_names_option_and_form(option: str, value: str, says: str) -> None:
    result = call("simulate", "x.onnx", "--platform", "laptop", option, value)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"error: Invalid value for '{option}'")
    assert says in result.stderr
    assert "see hetsim simulate --help" in result.stderr


def test_every_option_of_one_value_is_refused_where_it_comes_twice() -> None:
    tried = 0
    for words, command in commands():
        for option in command.params:
            if isinstance(option, click.Option) and not option.multiple and not option.is_flag:
                name = option.opts[0]
                once = [name, *["a"] * option.nargs]
                refused(
                    call(*words.split(), *once, *once),
                    2,
                    "takes one value and is given twice",
                    f"see hetsim {words} --help",
                )
                tried += 1
    assert tried > 50


OWN_WORDS = {
    "--address": "a run joins a cluster, a check asks one too",
    "--affinity": "a partition heeds its default and priority too",
    "--samples": "on what is played again",
    "--executor": "who answers the points of a sweep",
    "--explain": "of two nodes in a partition, of the best plan in a comparison",
    "--force": "what it lets be replaced",
    "--objective": "what plans are for, or what a platform is chosen by",
    "--out": "what the folder holds; of a placement a file, of nodes, a device or a report a file",
    "--requests": "of a run with --emulate alone",
    "--set": "rules of a partition, options of strategies",
    "--survive": "of a deployment, of a platform that is looked for",
    "--strategy": "one to plan by, several to compare",
}
"""Options whose help differs from command to command, and in what."""


def test_options_of_one_name_are_one_option() -> None:
    forms: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for _, command in commands():
        for option in command.params:
            if isinstance(option, click.Option):
                name = max(option.opts, key=len)
                choices = tuple(getattr(option.type, "choices", ()))
                kind = (option.type.name, choices, option.metavar, option.is_flag, option.help)
                forms[name].add(kind)
    several = {name for name, kinds in forms.items() if len(kinds) > 1}
    assert several == set(OWN_WORDS)
    for name in several - {"--executor", "--explain", "--objective", "--out"}:
        assert len({kind[:-1] for kind in forms[name]}) == 1, name
    # The points of a sweep share a Ray, or one process: what runs a plan can do that and more.
    (_, few, *_), (_, all_of_them, *_) = sorted(
        forms["--executor"], key=lambda kind: len(str(kind[1]))
    )
    assert [name for name in all_of_them if name in few] == list(few)


@given(st.integers(1, 10**6), st.sampled_from(["us", "ms", "s", "min", "h", "d"]))
def test_durations_are_read_with_their_unit(number: int, unit: str) -> None:
    step = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400}[unit]
    assert parse_seconds(f"{number}{unit}") == pytest.approx(number * step, rel=1e-15)
    assert parse_seconds(f" {number} {unit} ") == parse_seconds(f"{number}{unit}")
    assert parse_seconds(f"{number}") is parse_seconds(f"-{number}{unit}") is None


@given(st.integers(1, 10**6))
def test_rates_are_read_with_or_without_their_unit(number: int) -> None:
    assert parse_per_s(f"{number}") == parse_per_s(f"{number}/s") == number
    assert parse_per_s(f"{60 * number}/min") == parse_per_s(f"{3600 * number}/h") == number
    assert parse_per_s(f"{number}/week") is parse_per_s(f"-{number}") is None
