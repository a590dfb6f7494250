"""``hetsim devices``: the catalog of devices and platforms, device support, calibration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hetsim.cli.commands import Family
from hetsim.cli.invocation import current
from hetsim.cli.options.common import common_options, duration, verb_options, wide_option
from hetsim.cli.options.question import execute_option, model_options
from hetsim.cli.question import read_model
from hetsim.errors import PlatformError, UsageError, nearest

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hetsim.core.text import Record
    from hetsim.hardware.files.catalog_files import Sort


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
    """List, show, query and calibrate devices, links and platforms."""


@devices.command("list")
@click.option(
    "--families",
    is_flag=True,
    help="List the device families, cores and makes of graphics that a device file can name.",
)
@wide_option
@verb_options
def list_devices(families: bool, wide: bool) -> None:
    """List the devices, links and platforms of the catalog."""
    from hetsim.hardware.catalog import (
        device_names,
        kin_names,
        link_names,
        load_device,
        load_kin,
        load_link,
        load_platform,
        platform_names,
    )
    from hetsim.reporting.tables.hardware import (
        device_record,
        devices_report,
        families_record,
        families_report,
        link_record,
        platform_record,
    )

    invocation = current()
    if families:
        kins = [(name, load_kin(name)) for name in kin_names()]
        invocation.answer(lambda: families_record(kins), lambda: families_report(kins))
        return
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
@verb_options
def show_device(name: str, wide: bool) -> None:
    """Show each figure of a device, link or platform with its source.

    --wide adds every parameter of the cost model.
    """
    sort = _sort_of(name)
    if sort not in ("device", "link", "platform"):
        raise UsageError(
            f"'{name}' describes no device, link or platform, but a part of the catalog ({sort})",
            hint=f"'hetsim inspect {name}' checks it, 'hetsim devices list' lists the devices",
        )
    record, report = contents_of(name, sort, wide=wide)
    current().answer(lambda: record, lambda: report)


def contents_of(name: str, sort: Sort, *, wide: bool) -> tuple[Record, RenderableType]:
    """Return the record and report of a device, a link or a platform, by catalog name or file."""
    from hetsim.hardware.catalog import load_device, load_link, load_platform
    from hetsim.reporting.tables import hardware as tables

    schema = {"schema": f"hetsim-{sort}/1"}
    if sort == "platform":
        platform = load_platform(name)
        report = tables.platform_report(name, platform, wide=wide)
        return schema | tables.platform_record(name, platform), report
    if sort == "link":
        link = load_link(name)
        return schema | tables.link_record(name, link), tables.link_report(name, link)
    spec = load_device(name)
    return schema | tables.device_record(name, spec), tables.device_report(name, spec, wide=wide)


@devices.command("query")
@click.argument("name", metavar="NAME|FILE")
@click.argument("model")
@execute_option
@model_options
@verb_options
def query_device(name: str, model: str) -> None:
    """Show which nodes of MODEL a device supports, and why not all.

    A device supports a node alone, or as a part of a pattern. NAME is a device of the catalog;
    FILE is a YAML file of a device.
    """
    from hetsim.device.registry import make_device
    from hetsim.device.support.quantized import is_quantized
    from hetsim.hardware.catalog import load_device
    from hetsim.hardware.variants import INT8, executing
    from hetsim.problem.of_model import quantized_already
    from hetsim.reporting.tables.devices import answer_of, query_record, query_report

    invocation = current()
    sort = _sort_of(name)
    if sort != "device":
        hint = f"'hetsim inspect {model} --platform {name}' shows all its devices"
        raise UsageError(
            f"'{name}' is a {sort}, and a query needs one device",
            hint=hint if sort == "platform" else "'hetsim devices list' lists the devices",
        )
    # The device is quick to read: its errors come before the model is loaded.
    spec = load_device(name)
    for asked, precision in invocation.execute.items():
        if asked not in (name, spec.name):
            hint = f"give --execute {spec.name}={precision}"
            raise UsageError(
                f"--execute names '{asked}', and the query is of another device", hint=hint
            )
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


@devices.command("calibrate")
@click.argument("provider", metavar="[PROVIDER]", default="")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the device file here, and a journal of the measurements beside it.",
)
@click.option(
    "--budget",
    "budget_s",
    default="10min",
    show_default=True,
    callback=duration(),
    metavar="TIME",
    help="Measure for this long, e.g. 5min or 1h. A second run continues the first.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Run each kernel on N threads.",
)
@click.option(
    "--networks",
    type=click.IntRange(min=1),
    help="Measure at most N generated networks.  [default: as many as fit the budget]",
)
@click.option(
    "--judge",
    "models",
    multiple=True,
    metavar="NAME",
    help="Test the fitted cost model on this zoo model. Repeatable.  [default: all]",
)
@verb_options
def calibrate_device(
    provider: str,
    out: Path | None,
    budget_s: float,
    threads: int,
    networks: int | None,
    models: tuple[str, ...],
) -> None:
    """Measure this machine, and write its device file.

    PROVIDER is an execution provider of ONNX Runtime, e.g. cpu, cuda or openvino; without it, the
    available ones are listed. hetsim measures generated networks, fits the cost model to them,
    and tests it on zoo models. Stop other programs meanwhile.
    """
    from hetsim.cost.calibration.calibrate import calibrate as measure_and_fit
    from hetsim.cost.calibration.measurements import MeasuringProgress
    from hetsim.device.kernels.timing import PROVIDERS, available, check_provider
    from hetsim.reporting.tables.comparison import names_table
    from hetsim.reporting.tables.devices import calibration_record, calibration_report

    invocation = current()
    if not provider:
        there = available()
        invocation.answer(
            lambda: {
                "schema": "hetsim-calibrate-providers/1",
                "providers": [
                    {"name": name, "there": name in there, "install": package}
                    for name, (_, package) in PROVIDERS.items()
                ],
            },
            lambda: names_table(
                ("provider", "of ONNX Runtime", "on this machine"),
                (
                    (name, of_runtime, "available" if name in there else f"pip install {package}")
                    for name, (of_runtime, package) in PROVIDERS.items()
                ),
            ),
        )
        return
    check_provider(provider)
    if out is None:
        raise UsageError("--out is missing", hint=f"give -o my-{provider}.yaml")
    with invocation.progress("measuring") as show:

        def report(progress: MeasuringProgress) -> None:
            told = f"{progress.network}, {progress.measured} measured"
            show(told, left_s=progress.left_s or None)

        done = measure_and_fit(
            provider,
            out,
            threads=threads,
            budget_s=budget_s,
            networks=networks,
            models=models or None,
            report=report,
        )
    invocation.answer(lambda: calibration_record(done), lambda: calibration_report(done))
    if not invocation.as_json:
        invocation.note(
            f"use it: hetsim simulate zoo:resnet50 --platform {done.output} --strategy single"
        )


def _sort_of(name: str) -> Sort:
    """Return the kind that the catalog name or the file at the path `name` describes."""
    from hetsim.hardware.catalog import device_names, link_names, platform_names
    from hetsim.hardware.files.catalog_files import is_path

    if is_path(name):
        from hetsim.hardware.files.checking import check_file

        # The loader that reads it next reports its errors, with their places.
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
        missing=True,
    )
