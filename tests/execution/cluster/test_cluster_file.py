"""``cluster.yaml``: both of its variants are what Ray's cluster launcher takes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import ray.autoscaler
import yaml

from hetsim.execution.cluster import RESOURCE_PREFIX, read_cluster_file, seats_of_file
from hetsim.hardware.catalog import load_platform

TEXT = (Path(__file__).parents[3] / "cluster.yaml").read_text()
TITLES = ("# ---- Own machines", "# ---- AWS", "# ---- Both")


def variant(name: str) -> dict[str, Any]:
    """The file as it stands, or with the comment signs moved as its head says."""
    if name == "aws":
        head, own, aws, both = sections()
        lines = [line.removeprefix("#").removeprefix(" ") for line in aws.splitlines()[4:]]
        text = head + "\n".join(f"# {line}" for line in own.splitlines()) + "\n"
        text += "\n".join(lines) + "\n" + both
    else:
        text = TEXT
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def sections() -> list[str]:
    places = [TEXT.index(title) for title in TITLES]
    bounds = [0, *places, len(TEXT)]
    return [TEXT[a:b] for a, b in pairwise(bounds)]


def test_every_device_of_the_laptop_has_a_node_on_aws() -> None:
    offered = {
        resource
        for node_type in variant("aws")["available_node_types"].values()
        for resource in node_type["resources"]
    }
    devices = load_platform("laptop").devices
    assert offered == {RESOURCE_PREFIX + device for device in devices}


@pytest.mark.parametrize(("name", "state"), [("local", "unstated"), ("aws", "node")])
def test_the_check_takes_it(
    name: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump(variant(name), sort_keys=False))
    monkeypatch.chdir(tmp_path)
    found, errors = read_cluster_file("cluster.yaml")
    assert errors == ()
    assert found is not None
    assert found.node_types[0].name == {"local": "head", "aws": "cpu"}[name]
    seats = seats_of_file(found, tuple(load_platform("laptop").devices))
    assert {seat.state for seat in seats} == {state}


def test_the_check_takes_what_ray_ships(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = sorted(Path(ray.autoscaler.__file__).parent.glob("*/defaults.yaml"))
    whole = [path for path in shipped if "provider" in yaml.safe_load(path.read_text())]
    assert len(whole) >= 4
    for path in whole:
        assert read_cluster_file(str(path))[1] == ()
