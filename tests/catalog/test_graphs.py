"""The graphs of measured networks: all there, whole, with their licences, and loadable."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from catalog.measured import measured_folder
from catalog.points import read_graphs
from hetsim.errors import ModelError
from hetsim.graph.work import graph_work


@pytest.fixture(scope="module")
def folder() -> Path:
    return measured_folder()


def test_each_graph_that_a_row_names_is_there_and_no_other(folder, graphs, rows):
    named = {graph["file"] for row in rows for graph in row.get("graphs", ())}
    assert named <= set(graphs.entries)
    assert list(graphs.entries) == sorted(graphs.entries)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert f"| `graphs.tar.gz` | {len(graphs.entries)} networks" in readme


def test_the_archive_holds_files_alone_in_order_without_times_or_owners(folder):
    raw = gzip.decompress((folder / "graphs.tar.gz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        members = archive.getmembers()
        names = [member.name for member in members]
        notice = archive.extractfile("NOTICE.txt").read().decode()
        index = json.loads(archive.extractfile("INDEX.json").read())
    assert names == sorted(names)
    assert all(m.isreg() and m.mtime == m.uid == m.gid == 0 for m in members)
    graphs = {entry["file"] for entry in index["graphs"]}
    for entry in index["graphs"]:
        package = entry["source"]["package"].split("/")[-1].split(",")[-1].split()[0]
        assert package.lower() in notice.lower(), package
    others = set(names) - graphs - {"INDEX.json", "NOTICE.txt"}
    assert others == {name for name in names if name.startswith("LICENSE-")}
    assert all(name in notice for name in others)


@pytest.mark.parametrize(
    "file", ["resnet50.onnx", "ncnn_squeezenet.onnx", "vit_tiny_patch16_224.onnx"]
)
def test_a_graph_loads_and_has_the_products_that_are_told_of_it(graphs, file):
    model = graphs.load(file)
    flops = sum(work.flops for work in graph_work(model.graph))
    assert model.name == file.removesuffix(".onnx")
    assert flops == pytest.approx(2 * graphs.entries[file].macs, rel=0.05)


def test_a_graph_that_is_not_the_one_of_the_index_is_refused(folder, tmp_path):
    raw = gzip.decompress((folder / "graphs.tar.gz").read_bytes())
    (tmp_path / "graphs.tar.gz").write_bytes(gzip.compress(raw.replace(b"layer1.0", b"layer1.9")))
    with pytest.raises(ModelError, match="INDEX"):
        read_graphs(tmp_path)
