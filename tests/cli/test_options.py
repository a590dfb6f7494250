"""Option values: what is accepted, and that a refusal names the option and its form."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli_calls import Cli
from hetsim.cli.main import main
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
def test_a_wrong_value_names_option_and_form(cli: Cli, option: str, value: str, says: str) -> None:
    result = cli("simulate", "x.onnx", "--platform", "laptop", option, value)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"error: Invalid value for '{option}'")
    assert says in result.stderr
    assert "see hetsim simulate --help" in result.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "x", "--input", "x"], "NAME=FILE.npy"),
        (["run", "x", "--input", "=x.npy"], "NAME=FILE.npy"),
        (["run", "x", "--timeout", "0s"], "above 0"),
        (["run", "x", "--seed", "-1"], "x>=0"),
        (["run", "x", "--executor", "processes"], "'ray', 'threads'"),
        (["run", "x", "--executor", "threads", "--address", "h:1"], "--executor ray"),
        (["inspect", "x", "--dim", "n=1", "--dim", "n=2"], "'n' is given twice"),
        (["partition"], "Missing argument 'MODEL'"),
        (["inspect", "x", "--dims", "n=1"], "no option '--dims'; did you mean '--dim'?"),
        (["partition", "x", "y"], "unexpected extra argument"),
        (["run", "x"], "x: no such file"),
        (["run", "zoo:resnet18"], "no platform is given"),
        (["compare", "x", "--platform", "laptop", "--timeout", "9s"], "no effect without --run"),
        (["simulate", "x", "--platform", "laptop", "--strategy", "h"], "no strategy 'h'"),
        (["partition", "x", "--platform", "laptop", "--priority", "cpu,,gpu"], "--priority"),
        (["partition", "x", "--platform", "laptop", "--priority", "cpu,cpu"], "--priority"),
        (["devices", "shw", "x"], "no command 'shw'; did you mean 'show'?"),
        (["compare", "x", "--platform", "a", "--platform", "b"], "takes a list, e.g. rock-5b"),
        (["x.onnx", "--slo", "p99=5ms"], "no option '--slo'; verbs that have it: recommend, sim"),
        (
            ["simulate", "x", "--strategy", "heft", "--strategy", "peft"],
            "compare several",
        ),
        (
            ["compile", "x", "-o", "a", "--out", "b"],
            "'--out' takes one value",
        ),
        (
            ["compare", "x", "--objective", "latency", "--objective", "latency"],
            "'--objective'",
        ),
        (["run", "x", "--input", "x=a.npy", "--input", "x=b.npy"], "'x' is given twice"),
        (["partition", "x", "--set", "min_nodes=2", "--set", "min_nodes=3"], "is given twice"),
    ],
)
def test_a_wrong_command_line_is_one_line_that_helps(cli: Cli, words: list[str], says: str) -> None:
    result = cli(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ")
    assert says in result.stderr


@pytest.mark.parametrize(
    ("verb", "option", "value"),
    [
        ("simulate", "--platform", "laptop"),
        ("run", "--strategy", "heft"),
        ("simulate", "--dim", "n=1"),
        ("simulate", "--set", "max_devices=1"),
        ("simulate", "--objective", "latency"),
        ("run", "--objective", "latency"),
        ("run", "--contention", "none"),
        ("compile", "--contention", "none"),
        ("simulate", "--cost", "roofline"),
        ("run", "--what-if", "npu.speed x2"),
        ("simulate", "--without", "npu"),
    ],
)
def test_what_a_saved_plan_fixes_is_refused_beside_it(
    cli: Cli, verb: str, option: str, value: str
) -> None:
    more = ("--out", "folder") if verb == "compile" else ()
    result = cli(verb, "plan.json", option, value, *more)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{option} cannot go with a saved plan" in result.stderr


def every(command: click.Command) -> Iterator[tuple[list[str], click.Command]]:
    """Every verb, and every verb of a verb."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            for words, found in every(inner):
                yield [name, *words], found
    else:
        yield [], command


def test_every_option_of_one_value_is_refused_where_it_comes_twice(cli: Cli) -> None:
    tried = 0
    for words, command in every(main):
        for option in command.params:
            if isinstance(option, click.Option) and not option.multiple and not option.is_flag:
                name = option.opts[0]
                once = [name, *["a"] * option.nargs]
                result = cli(*words, *once, *once)
                assert result.exit_code == 2
                assert "takes one value and is given twice" in result.stderr
                assert f"see hetsim {' '.join(words)} --help" in result.stderr
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


Found = tuple[str, click.Command]


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[Found]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))
    else:
        yield " ".join(path), command


def test_options_of_one_name_are_one_option() -> None:
    forms: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for _, command in commands(main):
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


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--target", "7", "'7' has no unit; write e.g. 7s, 7ms, 7min"),
        ("--target", "soon", "'soon' is not a duration; write e.g. 10s"),
        ("--target", "0", "'0' is not above 0"),
    ],
)
def test_a_duration_wants_a_unit(cli: Cli, option: str, value: str, says: str) -> None:
    result = cli("simulate", "x.onnx", "--platform", "laptop", option, value)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
