"""A platform, a model of one batch size and one of any, and what the engine says."""

from __future__ import annotations

from pathlib import Path

import pytest

import hetsim
from deployments import model_at
from hetsim.simulation.service import serving
from hetsim.simulation.service.service import Service
from hetsim.simulation.serving.setup import Outcomes
from platforms import cpu_and_npu


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> hetsim.Platform:
    return cpu_and_npu(tmp_path_factory.mktemp("platform"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def fixed(folder: Path) -> str:
    return model_at(folder, 1)


@pytest.fixture(scope="module")
def open_(folder: Path) -> str:
    return model_at(folder, "batch")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Outcomes]:
    """What the engine says of each request, run by run."""
    found: list[Outcomes] = []
    real = serving.service_of

    def kept(run: object, *given: object) -> Service:
        found.append(run.outcomes())  # type: ignore[attr-defined]
        return real(run, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(serving, "service_of", kept)
    return found
