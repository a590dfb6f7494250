"""A platform of two devices, and a model of each of two widths."""

from __future__ import annotations

from pathlib import Path

import pytest

import hetsim
from deployments import model_at
from platforms import cpu_and_npu


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> hetsim.Platform:
    return cpu_and_npu(tmp_path_factory.mktemp("platform"))


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder: Path = tmp_path_factory.mktemp("models")
    return model_at(folder, 1, 512), model_at(folder, 1, 768)
