"""A system without what Unix has: plans and threads work there, the rest names what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STORY = """
import json, os, select, shutil, signal, sys
# What Windows has not, of what hetsim asks for; shutil there opens no folders.
shutil._use_fd_functions = False
for name in ("fcntl", "resource"):
    sys.modules[name] = None
for module, names in (
    (os, "geteuid getuid fork register_at_fork pidfd_open statvfs sysconf sched_getaffinity "
         "O_NOFOLLOW O_NONBLOCK O_CLOEXEC EX_OSERR memfd_create"),
    (select, "poll"), (signal, "SIGHUP pthread_sigmask"),
):
    for name in names.split():
        delattr(module, name)
from click.testing import CliRunner
from hetsim.cli.main import main
def call(*words):
    done = CliRunner().invoke(main, [*words, "--quiet"])
    error = done.exception if not isinstance(done.exception, SystemExit) else None
    print(json.dumps([done.exit_code, done.stderr, str(error or "")]), flush=True)
model = ("zoo:squeezenet", "--platform", "laptop")
call("inspect", "zoo:squeezenet")
call("simulate", *model, "--rate", "5", "--requests", "50")
call("run", *model, "--executor", "threads")
call("compile", *model, "-o", "compiled")
call("run", "compiled", "--executor", "threads")
call("run", *model)
call("sweep", "grid.yaml", "-o", "rows", "--executor", "threads")
call("sweep", "grid.yaml", "-o", "rows")
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """Exit code, what is on stderr, and the error of each command."""
    folder: Path = tmp_path_factory.mktemp("elsewhere")
    (folder / "grid.yaml").write_text("models: zoo:squeezenet\nplatforms: laptop\n")
    done = subprocess.run(
        [sys.executable, "-c", STORY],
        cwd=folder, capture_output=True, text=True, timeout=500, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


@pytest.mark.sweep
def test_plans_and_runs_on_threads_need_nothing_of_unix(told: list[list[Any]]) -> None:
    assert told[:5] == [[0, "", ""]] * 5


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("index", "what"),
    [
        (5, "Ray needs Python's module 'fcntl'"),
        (6, "a sweep needs Python's module 'fcntl'"),
        (7, "a sweep needs Python's module 'fcntl'"),
    ],
)
def test_what_needs_more_names_what_is_missing(
    told: list[list[Any]], index: int, what: str
) -> None:
    code, error, _ = told[index]
    assert code == 2
    assert what in error
    assert "docs/limits.md" in error
