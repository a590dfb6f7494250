"""What kernels take, from YAML to records: units, statuses, and figures beside the catalog."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from figure_builders import (
    ERROR,
    NETWORKS,
    VALUES,
    kernel_figures,
    kernels_block,
    kin_block,
    kin_record,
)
from hetsim.errors import PlatformError
from hetsim.hardware.catalog import device_names, load_device, load_kin, load_platform
from hetsim.hardware.files import catalog_files
from hetsim.hardware.files.checking import check_file
from hetsim.hardware.files.reader import digest
from hetsim.hardware.kernel_figures import (
    INDEX,
    PARAMETERS,
    Coordinate,
    Correction,
    FigureError,
    KernelFigures,
)

UNITS = {
    "tflops": 1e12, "gbytes_s": 1e9, "mib": 2**20, "us": 1e-6,
}  # fmt: skip


def own_device(tmp_path: Path, **more: Any) -> Path:
    data = yaml.safe_load((catalog_files.catalog_folder() / "nvidia-t4.yaml").read_text("utf-8"))
    # A precision that its kin alone says anything of is another test's.
    data.pop("measured")
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump({**data, **more}), encoding="utf-8")
    return path


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A catalog of one device, one link-free platform, and what was fitted for the device."""
    folder = tmp_path / "devices"
    for name in ("fitted", "platforms", "links"):
        (folder / name).mkdir(parents=True)
    text = (catalog_files.catalog_folder() / "nvidia-t4.yaml").read_text("utf-8")
    (folder / "card.yaml").write_text(text, encoding="utf-8")
    (folder / "platforms" / "alone.yaml").write_text(
        "host: gpu\ndevices: {gpu: card}\n", encoding="utf-8"
    )
    write_fitted(folder, {"int8": kernels_block()})
    monkeypatch.setattr(catalog_files, "_INSTALLED", folder)
    return folder


def write_fitted(catalog: Path, kernels: dict[str, Any], name: str = "card") -> None:
    path = catalog / "fitted" / f"{name}.yaml"
    path.write_text(yaml.safe_dump({"kernels": kernels}, sort_keys=False), encoding="utf-8")


def test_units_of_the_keys_are_those_of_the_values() -> None:
    for parameter in PARAMETERS:
        unit = next((size for end, size in UNITS.items() if parameter.name.endswith(f"_{end}")), 1)
        assert parameter.si(3.7) == pytest.approx(3.7 * unit, rel=1e-15)
        assert parameter.in_key_unit(parameter.si(3.7)) == pytest.approx(3.7, rel=1e-15)
    assert len(INDEX) == len(PARAMETERS)


def test_a_file_of_ones_own_states_figures_inline(tmp_path: Path) -> None:
    spec = load_device(own_device(tmp_path, kernels={"int8": kernels_block(rate_tflops=71.5)}))
    (figures,) = spec.kernels.values()
    assert figures == kernel_figures("int8", rate_tflops=71.5)
    assert figures.precision == "int8"
    assert figures.value("rate_tflops") == 71.5e12
    assert figures.value("launch_us") == VALUES["launch_us"] / 1e6
    assert figures.dispatch_s == VALUES["dispatch_us"] / 1e6
    assert figures.errors == (FigureError(**ERROR),)
    assert set(figures.provenance) == set(INDEX)
    assert figures.provenance["overlap"] == ("fitted", "made up for tests")


def test_the_error_of_a_batch_is_that_of_its_range_or_the_nearest() -> None:
    one, bulk = (FigureError(**{**ERROR, "batch": batch}) for batch in ("1", "17+"))
    figures = dataclasses.replace(kernel_figures(), errors=(bulk, one))
    assert [figures.error(batch) for batch in (1, 8, 64)] == [one, one, bulk]
    assert dataclasses.replace(figures, errors=()).error() is None


def test_what_was_fitted_lies_beside_the_device_and_is_no_device(catalog: Path) -> None:
    assert device_names() == ("card",)
    spec = load_device("card")
    assert spec.kernels == {"int8": kernel_figures("int8")}
    assert load_device(catalog / "card.yaml") == spec
    assert load_platform("alone").devices["gpu"] == spec
    (catalog / "fitted" / "card.yaml").unlink()
    assert load_device("card") == dataclasses.replace(spec, kernels={})


def test_other_figures_are_another_platform(catalog: Path) -> None:
    before = load_platform("alone")
    assert digest(before) == before.sha256 == load_platform("alone").sha256
    write_fitted(catalog, {"int8": kernels_block(overlap=2.5)})
    after = load_platform("alone")
    assert after.sha256 != before.sha256
    (catalog / "fitted" / "card.yaml").unlink()
    assert load_platform("alone").sha256 not in (before.sha256, after.sha256)


def write_kin(catalog: Path, block: dict[str, Any], name: str = "test-kin") -> Path:
    path = catalog / "fitted" / "kin" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(block, sort_keys=False), encoding="utf-8")
    return path


def test_the_catalogs_figures_know_their_kins_file_and_others_know_none(catalog: Path) -> None:
    before = load_platform("alone")
    assert load_device("card").kernels["int8"].likeness == ""
    path = write_kin(catalog, kin_block())
    known = load_device("card").kernels["int8"].likeness
    assert known == hashlib.sha256(path.read_bytes()).hexdigest()
    after = load_platform("alone")
    assert after.devices["gpu"].kernels["int8"].likeness == known
    assert digest(after) == after.sha256 != before.sha256
    assert load_kin("test-kin") == kin_record()
    assert device_names() == ("card",)
    write_kin(catalog, kin_block(sd=0.3))
    assert load_platform("alone").sha256 not in (before.sha256, after.sha256)
    write_fitted(catalog, {"int8": {**kernels_block(), "kin": "another"}})
    assert load_device("card").kernels["int8"].likeness == ""


def test_a_file_of_ones_own_belongs_to_no_kin(catalog: Path, tmp_path: Path) -> None:
    write_kin(catalog, kin_block())
    own = tmp_path / "own.yaml"
    data = yaml.safe_load((catalog / "card.yaml").read_text("utf-8"))
    own.write_text(
        yaml.safe_dump({**data, "measured": {}, "kernels": {"int8": kernels_block()}}), "utf-8"
    )
    assert load_device(own).kernels["int8"].likeness == ""
    platform = tmp_path / "platform.yaml"
    platform.write_text("host: gpu\ndevices: {gpu: {device: card, overrides: {idle_w: 1}}}\n")
    assert load_platform(platform).devices["gpu"].kernels["int8"].likeness


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"networks": "anet 1 2 0.1"}, "has a line 1 that is not a name, a batch"),
        ({"networks": kin_block()["likeness"]["networks"] + "\nb 0 1 " + "0 " * 18}, "a line 3"),
        ({"shared": 1.2}, "'likeness.shared' must be 1 at most, not 1.2"),
        ({"lenght": 1.0}, "unknown key 'lenght'"),
    ],
)
def test_a_broken_file_of_a_kin_says_where(
    catalog: Path, change: dict[str, Any], what: str
) -> None:
    block = kin_block()
    block["likeness"].update(change)
    path = write_kin(catalog, block)
    checked = check_file(str(path))
    assert checked.sort == "kin"
    assert any(what in error.what for error in checked.errors)
    with pytest.raises(PlatformError, match=r"test-kin\.yaml:"):
        load_kin("test-kin")
    with pytest.raises(PlatformError, match="no kin 'test-kim' in the catalog"):
        load_kin("test-kim")


def test_a_kin_has_a_hundred_networks_at_most(catalog: Path) -> None:
    many = [(f"net{i}", *NETWORKS[0][1:]) for i in range(101)]
    checked = check_file(str(write_kin(catalog, kin_block(many))))
    assert [error.what for error in checked.errors] == [
        "'likeness.networks' has 101 lines, but at most 100 are allowed"
    ]


def test_what_is_fitted_and_stated_is_refused(catalog: Path) -> None:
    stated = (catalog / "card.yaml").read_text("utf-8")
    own = yaml.safe_dump({"kernels": {"int8": kernels_block(), "float16": kernels_block()}})
    (catalog / "card.yaml").write_text(stated + own, encoding="utf-8")
    with pytest.raises(PlatformError, match=r"'kernels.int8' is also in devices/card.yaml"):
        load_device("card")
    (error,) = check_file(str(catalog / "card.yaml")).errors
    assert str(error.where).endswith("fitted/card.yaml:2")
    write_fitted(catalog, {"float32": kernels_block()})
    assert set(load_device("card").kernels) == {"int8", "float16", "float32"}


def test_a_broken_fit_is_told_with_its_file_and_line(catalog: Path) -> None:
    block = kernels_block()
    block["parameters"]["value"]["overlap"] = {"value": "much"}
    write_fitted(catalog, {"int8": block})
    for load in (lambda: load_device("card"), lambda: load_platform("alone")):
        with pytest.raises(PlatformError) as caught:
            load()
        assert str(caught.value.where).startswith("devices/fitted/card.yaml:")
        assert "'kernels.int8.parameters.overlap' must be a number, not 'much'" in str(caught.value)
    block["parameters"] = dict(VALUES)
    write_fitted(catalog, {"int8": block})
    with pytest.raises(PlatformError, match="has no status and source"):
        load_device("card")


def overridden(tmp_path: Path, **overrides: Any) -> tuple[KernelFigures, KernelFigures]:
    """Figures of int8 of a device as it is, and with keys overridden by its platform."""
    device = own_device(tmp_path, kernels={"int8": kernels_block(), "float16": kernels_block()})
    platform = tmp_path / "platform.yaml"
    entry = {"device": str(device), "overrides": overrides}
    platform.write_text(yaml.safe_dump({"host": "card", "devices": {"card": entry}}), "utf-8")
    return load_device(device).kernels["int8"], load_platform(platform).devices["card"].kernels[
        "int8"
    ]


@pytest.mark.parametrize(
    ("overrides", "times"),
    [
        ({"peak_tflops": {"int8": 260}}, {"rate_tflops": 2.0}),
        ({"peak_tflops": {"float32": 100}}, {}),
        ({"memory_gib": 2, "idle_w": 1}, {}),
        (
            {"memory_bandwidth_gbytes_s": 640},
            {"bandwidth_gbytes_s": 2.0, "weights_gbytes_s": 2.0},
        ),
        ({"launch_us": 8, "dispatch_us": 15}, {"launch_us": 2.0, "dispatch_us": 0.5}),
    ],
)
def test_figures_follow_what_a_platform_overrides(
    tmp_path: Path, overrides: dict[str, Any], times: dict[str, float]
) -> None:
    before, after = overridden(tmp_path, **overrides)
    for name in INDEX:
        assert after.value(name) == pytest.approx(before.value(name) * times.get(name, 1.0)), name
        status, source = after.provenance[name]
        if name in times:
            assert status == "derived"
            assert "as the platform overrides it" in source
        else:
            assert (status, source) == before.provenance[name]


def test_a_correction_is_read_line_by_line(tmp_path: Path) -> None:
    block = kernels_block()
    block["corrections"] = {
        "dense": {
            "offset": -0.1,
            "coordinates": {
                "columns": {"from": 0, "to": 9, "scale": 0.5},
                "rows": {"from": 1, "to": 4.5, "scale": 2, "slope": -0.25},
            },
            "centres": "5 4.0 0.25\n6 3 -1e-3\n",
        },
        "matmul": {"offset": 0.5},
    }
    read = load_device(str(own_device(tmp_path, kernels={"float32": block})))
    dense, matmul = read.kernels["float32"].corrections
    assert dense == Correction(
        "dense",
        -0.1,
        (Coordinate("rows", 1.0, 4.5, 2.0, -0.25), Coordinate("columns", 0.0, 9.0, 0.5, 0.0)),
        ((5.0, 4.0), (6.0, 3.0)),
        (0.25, -0.001),
    )
    assert matmul == Correction("matmul", 0.5, (), (), ())


def test_what_joins_kernels_is_read(tmp_path: Path) -> None:
    block = kernels_block()
    assert kernel_figures("float32").joins is None
    block["joins"] = {"dense": ["Relu", "Add/2"], "matmul": []}
    read = load_device(str(own_device(tmp_path, kernels={"float32": block})))
    assert read.kernels["float32"].joins == {
        "dense": frozenset({"Relu", "Add/2"}),
        "matmul": frozenset(),
    }
    block["joins"] = {"dense": ["Add/3"]}
    with pytest.raises(PlatformError, match="write 'Relu', 'Add/2' for a sum of two values"):
        load_device(str(own_device(tmp_path, kernels={"float32": block})))
