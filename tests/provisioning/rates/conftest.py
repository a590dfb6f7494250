"""A platform, models of one batch size and of any, and a folder for fleets."""

from __future__ import annotations

from pathlib import Path

import pytest

import hetsim
from deployments import model_at
from platforms import cpu_and_npu


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> hetsim.Platform:
    return cpu_and_npu(tmp_path_factory.mktemp("platform"))


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
