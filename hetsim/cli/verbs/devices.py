"""``hetsim devices``: the catalog, files of one's own, and what a device takes of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from hetsim.cli.commands import Family
from hetsim.cli.files import show_checked
from hetsim.cli.invocation import current
from hetsim.cli.options.common import common_options, json_option, wide_option
from hetsim.cli.options.question import execute_option, model_options
from hetsim.errors import PlatformError, UsageError, nearest

if TYPE_CHECKING:
    from hetsim.hardware.files.catalog_files import Sort


SORTS = ("device", "link", "platform", "fitted", "kin", "prices")


@click.group(
    cls=Family,
    examples=(
        ("hetsim devices list",
         "Which devices, links and platforms does the catalog have?"),
        ("hetsim devices show rock-5b",
         "Which figures does a platform have, and where do they come from?"),
        ("hetsim devices query rockchip-rk3588-npu zoo:inception_v1",
         "Which nodes does the NPU run, and why not the others?"),
    ),
)  # fmt: skip
@common_options
def devices() -> None:
    """The catalog's devices, links and platforms, and files that describe others."""


@devices.command("list")
@wide_option
@json_option
@common_options
def list_devices(wide: bool) -> None:
    """List devices, links and platforms."""
    from hetsim.hardware.catalog import (
        device_names,
        link_names,
        load_device,
        load_link,
        load_platform,
        platform_names,
    )
    from hetsim.reporting.tables.hardware import (
        device_record,
        devices_report,
        link_record,
        platform_record,
    )

    invocation = current()
    kinds = [(name, load_device(name)) for name in device_names()]
    links = [(name, load_link(name)) for name in link_names()]
    platforms = [(name, load_platform(name)) for name in platform_names()]
    invocation.answer(
        lambda: {
            "schema": "hetsim-devices/1",
            "devices": [device_record(name, spec) for name, spec in kinds],
            "links": [link_record(name, link) for name, link in links],
            "platforms": [platform_record(name, platform) for name, platform in platforms],
        },
        lambda: devices_report(kinds, links, platforms, wide=wide),
    )


@devices.command("show")
@click.argument("name", metavar="NAME|FILE")
@wide_option
@json_option
@common_options
def show_device(name: str, wide: bool) -> None:
    """Show every figure of a device or link with its source, or the parts of a platform.

    --wide adds every parameter of what kernels take.
    """
    from hetsim.hardware.catalog import load_device, load_link, load_platform
    from hetsim.reporting.tables.hardware import (
        device_record,
        device_report,
        link_record,
        link_report,
        platform_record,
        platform_report,
    )

    invocation = current()
    sort = _sort_of(name)
    if sort == "platform":
        platform = load_platform(name)
        record = platform_record(name, platform)
        report = platform_report(name, platform, wide=wide)
    elif sort == "link":
        link = load_link(name)
        record, report = link_record(name, link), link_report(name, link)
    elif sort == "fitted":
        device = Path(name).stem
        raise UsageError(
            f"'{name}' holds what was fitted for a device",
            hint=f"'hetsim devices show {device}' shows it with the device",
        )
    elif sort == "kin":
        raise UsageError(
            f"'{name}' holds what devices with one runtime and precision share",
            hint="'hetsim devices list' lists the devices",
        )
    else:
        spec = load_device(name)
        record, report = device_record(name, spec), device_report(name, spec, wide=wide)
    invocation.answer(lambda: record, lambda: report)


@devices.command("query")
@click.argument("name", metavar="NAME|FILE")
@click.argument("model")
@execute_option
@model_options
@json_option
@common_options
def query_device(
    name: str,
    model: str,
) -> None:
    """Show which nodes of MODEL a device takes: alone, in a pattern, or why not.

    NAME is a device of the catalog, or a YAML file of one.
    """
    from hetsim.cli.question import read_model
    from hetsim.device.registry import make_device
    from hetsim.device.support.quantized import is_quantized
    from hetsim.hardware.catalog import load_device
    from hetsim.hardware.variants import INT8, executing
    from hetsim.problem.of_model import quantized_already
    from hetsim.reporting.tables.devices import answer_of, query_record, query_report

    invocation = current()
    sort = _sort_of(name)
    if sort != "device":
        hint = f"'hetsim inspect {model} --platform {name}' asks all its devices"
        raise UsageError(
            f"'{name}' is a {sort}, and a query asks one device",
            hint=hint if sort == "platform" else "'hetsim devices list' lists the devices",
        )
    # The device is quick to read: its mistakes show before the model is loaded.
    spec = load_device(name)
    for asked, precision in invocation.execute.items():
        if asked not in (name, spec.name):
            hint = f"the device that is asked is '{spec.name}'"
            raise UsageError(f"--execute names another device, '{asked}'", hint=hint)
        spec = executing(spec, precision, f"device '{name}'")
    device = make_device(name, spec, extensions=invocation.extensions)
    read = read_model(model)
    if spec.executes == INT8 and is_quantized(read.graph):
        raise quantized_already(read)
    with invocation.progress(f"asking {name}"):
        support = device.query_model(read.graph)
    answer = answer_of(read.graph, device.spec, support)
    invocation.answer(
        lambda: query_record(name, device.spec, read, answer),
        lambda: query_report(name, device.spec, read, answer),
    )


@devices.command("validate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@json_option
@common_options
def validate_files(files: tuple[str, ...]) -> None:
    """Say of each FILE what it describes, or everything that is wrong with it.

    A file is a YAML description of a device, a link or a platform. Ends with exit code 3
    where any is wrong.
    """
    from hetsim.hardware.files.checking import check_file
    from hetsim.reporting.tables.hardware import checked_line, checked_record

    checks = [check_file(file) for file in files]
    record = {
        "schema": "hetsim-validation/1",
        "files": [checked_record(checked) for checked in checks],
    }
    show_checked(
        record, [(one.file, one.errors, checked_line(one)) for one in checks], PlatformError
    )


@devices.command("schema")
@click.argument(
    "sort",
    metavar="[device|link|platform|fitted|kin|prices|catalog]",
    type=click.Choice([*SORTS, "catalog"]),
    required=False,
)
@common_options
def show_schema(sort: Sort | Literal["catalog"] | None) -> None:
    """Print the JSON Schema of one sort of file, or of all as one.

    That of a catalog is of what `hetsim recommend --catalog` reads.

    Editors that check and complete YAML by a schema take it: save it, and name the file on
    the first line, e.g. "# yaml-language-server: $schema=hetsim.schema.json".
    """
    from hetsim.hardware.files.json_schema import json_schema

    if sort == "catalog":
        from hetsim.provisioning.platforms.catalog import catalog_schema

        current().show_json(catalog_schema())
        return
    current().show_json(json_schema(sort))


def _sort_of(name: str) -> Sort:
    """Return what the catalog name or the file at the path `name` describes."""
    from hetsim.hardware.catalog import device_names, link_names, platform_names
    from hetsim.hardware.files.catalog_files import is_path

    if is_path(name):
        from hetsim.hardware.files.checking import check_file

        # The loader that reads it next says what is wrong with it, and where.
        return check_file(name).sort or "device"
    names: dict[Sort, tuple[str, ...]] = {
        "platform": platform_names(),
        "device": device_names(),
        "link": link_names(),
    }
    for sort, known in names.items():
        if name in known:
            return sort
    known_names = [known for listed in names.values() for known in listed]
    raise PlatformError(
        f"no device, link or platform '{name}' in the catalog",
        hint=f"{nearest(name, known_names)} (a path ends in .yaml)",
    )
