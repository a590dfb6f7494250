"""``hetsim devices calibrate`` from end to end, on few networks."""

from __future__ import annotations

from pathlib import Path

import pytest

import hetsim
from cli_calls import ok, record_of
from hetsim.cost.calibration import calibrate as module
from hetsim.cost.calibration.calibrate import calibrate
from hetsim.cost.calibration.measurements import MeasuringProgress
from hetsim.errors import InvalidInput, UsageError
from hetsim.hardware.catalog import load_device, load_platform
from hetsim.hardware.kernel_figures import PARAMETERS


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEWEST", 2)


def test_a_machine_is_measured_and_its_file_is_read_at_once(few: None, tmp_path: Path) -> None:
    path = tmp_path / "my-cpu.yaml"
    words = ("cpu", "-o", str(path), "--networks", "2", "--judge", "squeezenet", "--budget", "5min")
    record = record_of("devices", "calibrate", *words)
    assert (record["schema"], record["networks"]) == ("hetsim-calibrate/1", 2)
    assert record["complete"] is True
    assert [one["name"] for one in record["judged"]] == [
        "zoo:squeezenet", "zoo:squeezenet 1/2", "zoo:squeezenet 2/2",
    ]  # fmt: skip
    assert all(one["measured_s"] > 0 and one["predicted_s"] > 0 for one in record["judged"])
    figures = load_device(str(path)).kernels["float32"]
    assert {status for status, _ in figures.provenance.values()} == {"fitted"}
    assert set(figures.provenance) == {one.name for one in PARAMETERS}
    assert "hetsim devices calibrate cpu, 20" in figures.source
    assert "1 thread" in figures.source
    assert figures.runtime.startswith("ONNX Runtime")
    # What hetsim prices by the file is what was shown, but for inputs and outputs.
    problem = hetsim.Problem.of(
        hetsim.load_model("zoo:squeezenet"), load_platform(str(path)), cost="fitted"
    )
    latency_s = hetsim.simulate(hetsim.plan(problem, "single")).latency_s
    whole = record["judged"][0]
    moved_s = 4 * (3 * 224 * 224 + 1000) / figures.value("io_gbytes_s")
    # Prices join nothing where that would cost more, as it may by the figures of few networks.
    assert 0.9 < (latency_s + moved_s) / whole["predicted_s"] < 1.001

    # Run again it measures nothing, and says the same.
    before = (tmp_path / "my-cpu.journal.jsonl").read_bytes()
    again = ok("devices", "calibrate", *words)
    assert (tmp_path / "my-cpu.journal.jsonl").read_bytes() == before
    assert "zoo:squeezenet" in again.stdout
    assert "held out" in again.stdout
    assert "use it: hetsim simulate" in again.stderr


def test_what_was_interrupted_goes_on(few: None, tmp_path: Path) -> None:
    path = tmp_path / "cpu.yaml"

    def stop(progress: MeasuringProgress) -> None:
        if progress.measured == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate("cpu", path, networks=2, models=[], report=stop)
    journal = tmp_path / "cpu.journal.jsonl"
    begun = journal.read_text("utf-8")
    assert len(begun.splitlines()) == 1 + 3
    assert not path.exists()
    done = calibrate("cpu", path, networks=2, models=[], date="2026-01-02")
    assert journal.read_text("utf-8").startswith(begun)
    assert len(journal.read_text("utf-8").splitlines()) == 1 + 4
    assert (done.complete, done.networks, done.judged, done.errors) == (True, 2, (), ())
    text = path.read_text("utf-8")
    assert "2026-01-02" in text
    # The same measurements give the same file.
    calibrate("cpu", path, networks=2, models=[], date="2026-01-02")
    assert path.read_text("utf-8") == text
    with pytest.raises(InvalidInput, match="started with threads 1, but this run has 2"):
        calibrate("cpu", path, threads=2, networks=2, models=[])


def test_a_budget_that_is_used_up_ends_it(few: None, tmp_path: Path) -> None:
    done = calibrate("cpu", tmp_path / "cpu.yaml", budget_s=1e-9, networks=4, models=[])
    assert (done.complete, done.networks) == (False, 2)
    assert done.spread >= 0


def test_providers_are_listed() -> None:
    shown = ok("devices", "calibrate").stdout
    assert "CPUExecutionProvider" in shown
    assert "install onnxruntime-gpu" in shown
    there = {"name": "cpu", "there": True, "install": "onnxruntime"}
    assert there in record_of("devices", "calibrate")["providers"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot write the journal"):
        calibrate("cpu", tmp_path / "none" / "x.yaml", networks=24)
    with pytest.raises(UsageError, match="0 threads"):
        calibrate("cpu", tmp_path / "x.yaml", threads=0)
