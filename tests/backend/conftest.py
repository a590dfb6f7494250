"""The official suite and what plain ONNX Runtime makes of it, once for all tests here."""

from __future__ import annotations

import re
from collections.abc import Iterator

import onnx
import onnxruntime
import pytest

from oracles.onnx_suite import Judged, Suite, judge
from summary import SUMMARY

_SHOWN = 120
_SOURCE_LINE = re.compile(r"/onnxruntime_src/\S+ .*\) (?=[A-Z])")


@pytest.fixture(scope="session")
def judged(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Judged]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNX_HOME", str(tmp_path_factory.mktemp("onnx")))
        swept = any(item.get_closest_marker("sweep") for item in request.session.items)
        found = judge(Suite(small=not swept))
        request.config.stash[SUMMARY]["onnx.backend.test on plain ONNX Runtime"] = _listed(found)
        yield found


def _listed(found: Judged) -> list[str]:
    """Which tests of the suite plain ONNX Runtime does not pass, and why."""
    reasons: dict[str, list[str]] = {}
    for name, reason in found.plain.items():
        if reason:
            gist = _SOURCE_LINE.sub("", reason)[:_SHOWN]
            reasons.setdefault(gist, []).append(name.removesuffix("_cpu"))
    lines = [
        f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}: "
        f"{len(found.passed)} of {len(found.plain)} tests pass; these do not:"
    ]
    for reason, names in sorted(reasons.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        lines += [f"{len(names)} x {reason}", "    " + " ".join(names)]
    return lines
