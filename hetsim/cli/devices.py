"""``hetsim devices``: the catalog."""

from __future__ import annotations

import click

from hetsim.cli.options import common_options, json_option
from hetsim.cli.session import current
from hetsim.errors import PlatformError, nearest


@click.group()
@common_options
def devices() -> None:
    """List the catalog's devices and platforms, or show one."""


@devices.command("list")
@json_option
@common_options
def list_devices(as_json: bool) -> None:
    """List devices and platforms."""
    from hetsim.hardware.catalog import (
        device_names,
        load_device,
        load_platform,
        platform_names,
    )
    from hetsim.reporting.hardware_table import device_record, devices_report, platform_record

    session = current()
    kinds = [(name, load_device(name)) for name in device_names()]
    platforms = [(name, load_platform(name)) for name in platform_names()]
    if as_json:
        session.show_json(
            {
                "schema": "hetsim-devices/1",
                "devices": [device_record(name, spec) for name, spec in kinds],
                "platforms": [platform_record(name, platform) for name, platform in platforms],
            }
        )
    else:
        session.show(devices_report(kinds, platforms))


@devices.command("show")
@click.argument("name", metavar="NAME|FILE")
@json_option
@common_options
def show_device(name: str, as_json: bool) -> None:
    """Show every figure of a device with its source, or the parts of a platform."""
    from hetsim.hardware.catalog import (
        device_names,
        load_device,
        load_platform,
        platform_names,
    )
    from hetsim.reporting.hardware_table import (
        device_record,
        device_report,
        platform_record,
        platform_report,
    )

    session = current()
    if name in platform_names() or _describes_platform(name):
        platform = load_platform(name)
        if as_json:
            session.show_json(platform_record(name, platform))
        else:
            session.show(platform_report(name, platform))
        return
    known = {*device_names(), *platform_names()}
    if name not in known and not _is_file(name):
        raise PlatformError(
            f"no device or platform '{name}' in the catalog",
            hint=f"{nearest(name, known)} (a path ends in .yaml)",
        )
    spec = load_device(name)
    if as_json:
        session.show_json(device_record(name, spec))
    else:
        session.show(device_report(name, spec))


def _is_file(name: str) -> bool:
    return "/" in name or name.endswith((".yaml", ".yml"))


def _describes_platform(name: str) -> bool:
    """Whether `name` is a YAML file of a platform: one that lists devices."""
    if not _is_file(name):
        return False
    import yaml

    try:
        with open(name, encoding="utf-8") as stream:
            content = yaml.safe_load(stream)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        # The loader that reads it next says what is wrong with it, and where.
        return False
    return isinstance(content, dict) and "devices" in content
