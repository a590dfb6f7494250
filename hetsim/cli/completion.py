"""Shell completion of ``hetsim``: names of the catalog, of strategies and of models.

The shell passes its question in environment variables, as click's scripts do; bash passes the line
itself, because it ends words at colons and equals signs (``zoo:resnet50``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    _resolve_context,
    _resolve_incomplete,
    split_arg_string,
)

from hetsim.cli.invocation import COMPLETION, Invocation
from hetsim.errors import HetsimError

ZOO = "zoo:"

Names = Callable[[click.Context], Iterable[str]]

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' type value
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case $type in
            plain) COMPREPLY+=("$value") ;;
            file) COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")); compopt -o filenames ;;
            dir) COMPREPLY+=($(compgen -d -- "${COMP_WORDS[COMP_CWORD]}")); compopt -o filenames ;;
        esac
    done < <(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
    case ${COMPREPLY[0]} in *=|*.|*:) compopt -o nospace ;; esac
}
complete -F %(complete_func)s %(prog_name)s
"""


class Completing(ShellComplete):
    """Completion by the names that parameters accept."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """Return the completions of `incomplete` after the words `args`."""
        context = _resolve_context(self.cli, self.ctx_args, self.prog_name, args)
        asked, incomplete = _resolve_incomplete(context, args, incomplete)
        if isinstance(asked, click.Parameter):
            own = offered(context, asked, incomplete)
            if own is not None:
                return own
        found = asked.shell_complete(context, incomplete)
        if asked is self.cli and incomplete.startswith(ZOO):
            return [CompletionItem(one) for one in _MODELS(context) if one.startswith(incomplete)]
        if asked is self.cli and incomplete and not incomplete.startswith("-"):
            found.append(CompletionItem(incomplete, type="file"))
        return found


class Bash(Completing, BashComplete):
    """Bash, which passes the line up to the cursor."""

    source_template = _BASH

    @staticmethod
    def _check_version() -> None:
        """Do nothing: no feature of bash 4.4 or later is used."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the complete words, and the one at the cursor."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        last = "" if line[-1:].isspace() or not words else words.pop()
        return words[1:], last

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the completion without the part that bash counts to earlier words."""
        if item.type != "plain":
            return f"{item.type},"
        _, typed = self.get_completion_args()
        # For ``--option=value`` only the value is offered.
        option, equals, _ = typed.partition("=")
        before = f"{option}=" if equals and option.startswith("-") else ""
        breaks = os.environ.get("COMP_WORDBREAKS", "")
        done = max((typed.rfind(char) + 1 for char in ":=" if char in breaks), default=0)
        return f"plain,{(before + item.value)[done:]}"


class Zsh(Completing, ZshComplete):
    """Zsh, by click's script."""


class Fish(Completing, FishComplete):
    """Fish, by click's script."""


SHELLS: Mapping[str, type[Completing]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


def script(app: click.Command, shell: str) -> str:
    """Return the script that makes `shell` complete the words of ``hetsim``."""
    return SHELLS[shell](app, {}, "hetsim", COMPLETION).source()


def answer(app: click.Command, invocation: Invocation, asked: str) -> int:
    """Print the answer to the shell's question, ``bash_complete``; return the exit code."""
    shell, _, what = asked.partition("_")
    if shell not in SHELLS or what not in ("source", "complete"):
        return 1
    if what == "source":
        click.echo(script(app, shell), nl=False)
        return 0
    # A name that cannot be read offers nothing: TAB never prints an error.
    with suppress(HetsimError, OSError):
        click.echo(SHELLS[shell](app, {"obj": invocation}, "hetsim", COMPLETION).complete())
    return 0


def offered(
    context: click.Context, asked: click.Parameter, incomplete: str
) -> list[CompletionItem[Any]] | None:
    """Return the names, and files, that a parameter accepts.

    None if it has no names of its own: click completes choices and paths.
    """
    verb = context.command_path.partition(" ")[2]
    names = OF_VERB.get((verb, str(asked.name))) or NAMES.get(str(asked.name))
    takes_files = str(asked.name) in FILES or (verb, str(asked.name)) in FILES_OF_VERB
    if names is None and not takes_files:
        return None
    several = str(asked.name) in LISTS or (verb, str(asked.name)) in LISTS_OF_VERB
    head, sep, last = incomplete.rpartition(",") if several else ("", "", incomplete)
    found = [
        CompletionItem(f"{head}{sep}{name}")
        for name in (names(context) if names is not None else ())
        if name.startswith(last)
    ]
    if takes_files and not incomplete.startswith(ZOO):
        found.append(CompletionItem(incomplete, type="file"))
    return found


def _of(*homes: str, form: str = "{}") -> Names:
    """Return the source of the names that functions or collections (``module:name``) have."""

    def names(context: click.Context) -> list[str]:
        found = []
        for home in homes:
            module, _, attribute = home.partition(":")
            known = getattr(import_module(module), attribute)
            found += known() if callable(known) else known
        return [form.format(getattr(one, "name", one)) for one in found]

    return names


_MODELS = _of("hetsim.graph.zoo.models:names", form=f"{ZOO}{{}}")
_CATALOG = "hetsim.hardware.catalog"
_PLATFORMS = _of(f"{_CATALOG}:platform_names", f"{_CATALOG}:device_names")
_METHODS = "hetsim.partitioning.methods.registry:methods"


def _devices(context: click.Context) -> list[str]:
    """Names of the devices of the platform on the command line."""
    from hetsim.hardware.catalog import load_platform

    platform = context.find_root().obj.platform
    return [] if platform is None else list(load_platform(platform).devices)


def _strategies(context: click.Context) -> list[str]:
    from hetsim.placement.registry import strategy_names

    return [*strategy_names(), *(f"single:{name}" for name in _devices(context))]


def _methods(context: click.Context) -> list[str]:
    return [*_of(_METHODS)(context), "all"]


def _executed(context: click.Context) -> list[str]:
    return [
        f"{device}={precision}"
        for device in _devices(context)
        for precision in ("int8", "float16", "bfloat16", "float32")
    ]


def _runtimes(context: click.Context) -> list[str]:
    """Runtimes with figures for a device of the platform; without one, those of the catalog."""
    from hetsim.hardware.catalog import device_names, load_device, load_platform
    from hetsim.hardware.files.runtimes import every_runtime

    name = context.find_root().obj.platform
    if name is None:
        return sorted({one for each in device_names() for one in every_runtime(load_device(each))})
    devices = load_platform(name).devices
    return [f"{device}={one}" for device, spec in devices.items() for one in every_runtime(spec)]


def _of_devices(form: str) -> Names:
    return lambda context: [form.format(device) for device in _devices(context)]


def _settings(context: click.Context) -> list[str]:
    from hetsim.cli.question import DEFAULT_STRATEGY
    from hetsim.placement.registry import option_types

    own = context.find_root().obj.strategy
    given = context.params.get("strategies") or own or DEFAULT_STRATEGY
    named = (given,) if isinstance(given, str) else given
    return sorted({f"{key}=" for name in named for key in option_types(name)})


NAMES: Mapping[str, Names] = {
    "model": _MODELS,
    "source": _MODELS,
    "platform": _PLATFORMS,
    "strategy": _strategies,
    "strategies": _strategies,
    "cost": _of("hetsim.cost.registry:cost_models"),
    "execute": _executed,
    "runtime": _runtimes,
    "profiles": _of_devices("{}="),
    "measured": _of_devices("{}="),
    "mtbf": _of_devices("{}="),
    "mttr": _of_devices("{}="),
    "available": _of_devices("{}="),
    "prices": _of_devices("{}="),
    "changes": _of_devices("{}."),
    "without": _devices,
    "priority": _devices,
    "settings": _settings,
    "method": _methods,
    "front": _of("hetsim.sweeping.rows:NUMBERS"),
    "provider": _of("hetsim.device.kernels.timing:PROVIDERS"),
    "models": _MODELS,
}
"""Names by parameter, for all verbs."""

OF_VERB: Mapping[tuple[str, str], Names] = {
    ("devices show", "name"): _of(
        *(f"{_CATALOG}:{sort}_names" for sort in ("platform", "device", "link"))
    ),
    ("devices query", "name"): _PLATFORMS,
    ("compare", "listed"): _of("hetsim.placement.registry:strategy_names", _METHODS),
    ("recommend", "catalog"): _PLATFORMS,
    ("partition", "settings"): _of("hetsim.cli.verbs.partition:KEYS", form="{}="),
    ("inspect", "device"): _devices,
    ("inspect", "files"): _MODELS,
}
"""Names by verb and parameter."""

LISTS = ("execute", "runtime", "without", "priority", "front", "catalog")
"""Parameters that take several names, separated by commas."""

LISTS_OF_VERB = frozenset({("compare", "platform")})
"""The same of one verb."""

FILES = frozenset(
    {"model", "source", "platform", "affinity", "workload", "deployment", "file", "files",
     "inputs", "extensions", "catalog"}
)  # fmt: skip
"""Parameters that take the path of a file."""

FILES_OF_VERB = frozenset({("devices show", "name"), ("devices query", "name")})
