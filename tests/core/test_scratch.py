"""Folders for a while: nothing of a process that was killed stays, whatever it was doing."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hetsim.core.files import lasting_folder, scratch_folder
from onnx_builders import make_model, op, save, value
from sweeps import sweep

DIES = "import os, signal, sys\ndef dies(*_, **__): os.kill(os.getpid(), signal.SIGKILL)\n"
MODEL = "import hetsim\nfrom hetsim.graph.reading import onnx_runtime as room\n"
KILLED = {
    "optimised": MODEL + "room._written = dies\nhetsim.load_model(sys.argv[1], canonical='basic')",
    "put aside": MODEL + "room.PAYS_BYTES = 1\nroom._written = dies\n"
    "hetsim.load_model(sys.argv[1], canonical='basic')",
    "observed": MODEL
    + "from hetsim.graph.shapes import measurement\nmeasurement.open_session = dies\n"
    "hetsim.load_model(sys.argv[2], canonical='none')",
    "profiled": "import onnxruntime\nfrom hetsim.device.kernels import onnx_runtime\n"
    "kept = onnx_runtime.SessionProfile(onnxruntime.SessionOptions())\ndies()",
    "zoo": "from pathlib import Path\nimport onnx\nfrom hetsim.graph.zoo import models\n"
    "onnx.load = dies\nmodels._write('squeezenet', "
    "Path(models.__file__).with_name('x'), Path(sys.argv[3]))",
}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert not list(folder.glob("hetsim-*"))


@sweep("what", quick=["optimised", "zoo"], full=KILLED)
def test_what_a_killed_process_left_goes_with_the_next(
    what: str, tmp_path: Path, temporary: Path
) -> None:
    plain = save(make_model([op("Neg", "x", "y")], [value("x")], [value("y")]), tmp_path)
    open_ = [op("NonZero", "x", "i"), op("Cast", "i", "y", to=1)]
    seen = save(make_model(open_, [value("x")], [value("y", None)]), tmp_path, "open.onnx")
    zoo = tmp_path / "zoo"
    words = [sys.executable, "-c", DIES + KILLED[what], str(plain), str(seen), str(zoo)]
    killed = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    place, prefix = (zoo, ".making-") if what == "zoo" else (temporary, "hetsim-tmp-")
    assert list(place.glob(f"{prefix}*"))
    with lasting_folder(zoo, ".making-") if what == "zoo" else scratch_folder() as folder:
        assert list(place.glob(f"{prefix}*")) == [folder]
        # Another that is alive is left alone.
        with scratch_folder():
            assert folder.exists()
    assert not list(place.glob(f"{prefix}*"))


def test_a_folder_whose_owner_has_no_locks_is_left_alone(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without, contextlib.ExitStack() as kept:
        without.setattr("hetsim.core.files.try_lock", lambda _: False)
        folder = kept.enter_context(scratch_folder())
        without.undo()
        with scratch_folder():
            assert folder.exists()
