"""The official suite and what plain ONNX Runtime makes of it, once for all tests here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import onnx
import onnxruntime
import pytest

from oracles.onnx_suite import Judged, Suite, plain

_SHOWN = 120
_SOURCE_LINE = re.compile(r"/onnxruntime_src/\S+ .*\) (?=[A-Z])")


_judged = pytest.StashKey[Judged]()


@pytest.fixture(scope="session")
def judged(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Judged]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNX_HOME", str(tmp_path_factory.mktemp("onnx")))
        suite = Suite()
        found = Judged(suite, {name: suite.attempt(name, plain) for name in suite.kinds})
        request.config.stash[_judged] = found
        yield found


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print which tests of the suite plain ONNX Runtime does not pass, and why."""
    found = config.stash.get(_judged, None)
    if found is None:
        return
    reasons: dict[str, list[str]] = {}
    for name, reason in found.plain.items():
        if reason:
            gist = _SOURCE_LINE.sub("", reason)[:_SHOWN]
            reasons.setdefault(gist, []).append(name.removesuffix("_cpu"))
    terminalreporter.section("onnx.backend.test on plain ONNX Runtime")
    terminalreporter.line(
        f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}: "
        f"{len(found.passed)} of {len(found.plain)} tests pass; these do not:"
    )
    for reason, names in sorted(reasons.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        terminalreporter.line(f"{len(names)} x {reason}")
        terminalreporter.line("    " + " ".join(names))
