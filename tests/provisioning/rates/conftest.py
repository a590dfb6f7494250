"""A platform, models of one batch size and of any, and a folder for fleets."""

from __future__ import annotations

from pathlib import Path

import pytest

import hetsim
from deployments import model_at
from platforms import CPU_AND_NPU


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> hetsim.Platform:
    path = tmp_path_factory.mktemp("platform") / "pair.yaml"
    path.write_text(CPU_AND_NPU)
    return hetsim.load_platform(path)


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return model_at(tmp_path_factory.mktemp("models"), 1)


@pytest.fixture(scope="module")
def open_(tmp_path_factory: pytest.TempPathFactory) -> str:
    return model_at(tmp_path_factory.mktemp("models"), "batch")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return model_at(tmp_path_factory.mktemp("models"), "batch", 256)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleets")
