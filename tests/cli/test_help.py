"""Help: short by default, complete by group, with examples that work as they are copied."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from cli_calls import call, ok, refused
from hetsim.cli.commands import GROUPS, RENAMED, Command, Family
from hetsim.cli.invocation import Invocation
from hetsim.cli.main import EXAMPLES, OLD, VERBS, main
from sweeps import sweep

KEPT = [verb for verb in VERBS if not any(old.split()[0] == verb for old in OLD)]
"""Verbs but for those that are about to go."""

ROOT = click.Context(main, info_name="hetsim", obj=Invocation(("hetsim",)))


def command_of(verb: str) -> Command | Family:
    found = main.get_command(ROOT, verb)
    assert isinstance(found, Command | Family)
    return found


def parsed(words: list[str]) -> None:
    """Read the words of an example to the last, and run nothing."""
    _, command, rest = main.resolve_command(ROOT, words)
    assert command is not None
    context = ROOT
    if isinstance(command, click.Group):
        context = click.Context(command, parent=ROOT, info_name=words[0])
        _, command, rest = command.resolve_command(context, rest)
        assert command is not None
    command.make_context(words[0], rest, parent=context)


@pytest.mark.parametrize("verb", KEPT)
def test_help_fits_two_screens_and_help_all_lists_the_rest(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    short = call(verb, "--help").stdout.splitlines()
    shown = [line for line in short[short.index("Options:") :] if line.startswith("  -")]
    assert max(map(len, short)) <= 80
    assert len(short) <= 100
    assert len(shown) <= 20
    command = command_of(verb)
    if any(one.name == "help_all" for one in command.params):
        everything = call(verb, "--help-all").stdout.splitlines()
        titles = [line[:-1] for line in everything if line.endswith(":") and line[:1].isupper()]
        titles = [title for title in titles if title not in ("Commands", "Examples")]
        assert titles == [title for title in GROUPS if title in titles]
        options = [one for one in command.params if isinstance(one, click.Option)]
        listed = everything[everything.index(f"{titles[0]}:") :]
        assert len([line for line in listed if line.startswith("  -")]) == len(options) + 1
        last = "\n".join(short).partition("More options with --help-all:")[2].split()
        assert set(" ".join(last).rstrip(".").split(", ")) <= set(titles)


@pytest.mark.parametrize("verb", KEPT)
def test_each_verb_has_three_examples_of_its_own_options(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hetsim.graph.inputs.arrays.read_npy", lambda *_: None)
    examples = command_of(verb).examples
    assert len(examples) == 3
    for command, question in examples:
        program, *words = shlex.split(command)
        assert program == "hetsim"
        assert len(command) <= 78
        assert question[-1] in ".?"
        if not {"--schema", "--strategies"} & set(words):
            parsed(words)


def test_a_bare_call_shows_the_help() -> None:
    result = call()
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == call("--help").stdout
    assert [line for line, _ in EXAMPLES] == [
        line.strip() for line in result.stdout.splitlines() if line.startswith("  hetsim ")
    ]


def test_the_first_example_is_the_demo() -> None:
    """Which is run, and what it prints compared with README."""
    readme = (Path(__file__).parents[2] / "README.md").read_text().replace("\n", " ")
    assert f"`{EXAMPLES[0][0]}" in readme


@sweep("command", quick=[EXAMPLES[2][0]], full=[command for command, _ in EXAMPLES])
def test_each_example_works(command: str) -> None:
    program, *words = shlex.split(command)
    assert program == "hetsim"
    result = call(*words)
    assert (result.exit_code, bool(result.stdout)) == (0, True), result.stderr


@pytest.mark.parametrize(("old", "new"), [("--draws", "--samples"), ("--target-ms", "--target")])
def test_an_old_option_names_the_new_one(old: str, new: str) -> None:
    assert RENAMED[old] == new
    refused(call("simulate", "x.onnx", old, "5"), 2, f"no option '{old}'; it is '{new}' now")


def test_an_old_verb_runs_the_new_one_and_says_so() -> None:
    result = ok("completion", "bash")
    assert result.stderr == "'hetsim completion' is now 'hetsim --completion'\n"
    assert result.stdout == call("--completion", "bash").stdout


def test_a_model_in_the_place_of_a_verb_is_compared_or_bought_for(
    model: Path, tmp_path: Path
) -> None:
    asked = ("--platform", "nowhere")
    assert call(model, *asked).stderr == call("compare", model, *asked).stderr
    assert "hetsim recommend --help" in call("zoo:resnet50", "--rate", "5", "--nothing").stderr
    assert "see hetsim compare --help" in call("x.onnx", "--nothing").stderr
    assert "no command 'simulte'; did you mean 'simulate'?" in call("simulte").stderr
