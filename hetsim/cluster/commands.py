"""What the shell commands of a cluster file say: how Ray is started, what pip is told."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

DEFAULT_PORT = 6379
PINNED = ("hetsim", "onnxruntime", "ray", "onnx", "numpy")
"""Packages whose version matters to a run."""

_ENDS = frozenset({"&&", "||", ";", "|", "&", "(", ")"})
_PIN = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?===?([0-9A-Za-z.*+!-]+)")
_IMAGE = re.compile(r"rayproject/ray(?:-ml)?:(\d+\.\d+\.\d+)[^-\s]*(?:-py(\d)(\d+))?")


@dataclass(frozen=True, slots=True)
class RayStart:
    """One ``ray start``.

    Attributes
    ----------
    head : bool
    port : str or None
        Of the head: what it listens on.
    address : str or None
        Of a worker: what it joins.
    resources : mapping of str to float
        As stated.
    labels : mapping of str to str
        As stated.
    stated : bool
        False where the machine itself says a part of them: what a shell puts in.
    autoscaling : bool
        Whether it is told of the autoscaler's configuration.
    wrong : tuple of (str, str)
        What cannot be read, and what to do.
    """

    head: bool
    port: str | None = None
    address: str | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    stated: bool = True
    autoscaling: bool = False
    wrong: tuple[tuple[str, str], ...] = ()


def ray_starts(command: str) -> tuple[RayStart, ...]:
    """Return each ``ray start`` of a shell command. Raises ValueError where quotes are open."""
    return tuple(
        _start(words[index + 2 :])
        for words in _simple_commands(command)
        for index in range(len(words) - 1)
        if words[index].rpartition("/")[2] == "ray" and words[index + 1] == "start"
    )


def pins(command: str) -> tuple[tuple[str, str], ...]:
    """Return (package, version) for what a command installs at one exact version.

    Raises ValueError where quotes are open.
    """
    found: list[tuple[str, str]] = []
    for words in _simple_commands(command):
        if "install" not in words:
            continue
        for word in words[words.index("install") + 1 :]:
            match = _PIN.fullmatch(word)
            if match is not None and match[1].lower() in PINNED:
                found.append((match[1].lower(), match[2]))
    return tuple(found)


def image_pins(image: str) -> tuple[tuple[str, str], ...]:
    """Return the versions of ray and Python that the name of one of Ray's images states."""
    match = _IMAGE.match(image)
    if match is None:
        return ()
    found = [("ray", match[1])]
    if match[2]:
        found.append(("python", f"{match[2]}.{match[3]}.*"))
    return tuple(found)


def _simple_commands(command: str) -> Iterator[list[str]]:
    """Yield the words of each command between the shell's ``&&``, ``;`` and the like."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars="();&|")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if word in _ENDS:
            yield words
            words = []
        else:
            words.append(word)
    yield words


def _start(words: Sequence[str]) -> RayStart:
    options = _options(words)
    stated, wrong = "labels-file" not in options, []
    resources: dict[str, float] = {}
    labels: dict[str, str] = {}
    said = options.get("resources", "{}")
    if _from_shell(said):
        stated = False
    else:
        try:
            resources = {name: float(amount) for name, amount in json.loads(said).items()}
        except (ValueError, TypeError, AttributeError):
            wrong.append(
                (
                    f"--resources={said} is no JSON of names and numbers",
                    """write --resources='{"hetsim_gpu": 1}'""",
                )
            )
    said = options.get("labels", "")
    if _from_shell(said):
        stated = False
    else:
        for entry in filter(None, said.split(",")):
            name, mark, value = entry.partition("=")
            if not mark:
                wrong.append((f"the label '{entry}' has no value", f"write --labels={entry}=1"))
            labels[name.strip()] = value.strip()
    return RayStart(
        head="head" in options,
        port=options.get("port"),
        address=options.get("address"),
        resources=resources,
        labels=labels,
        stated=stated,
        autoscaling="autoscaling-config" in options,
        wrong=tuple(wrong),
    )


def _options(words: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for index, word in enumerate(words):
        if word.startswith("--"):
            name, mark, value = word[2:].partition("=")
            following = words[index + 1] if index + 1 < len(words) else ""
            found[name] = value if mark or following.startswith("-") else following
    return found


def _from_shell(text: str) -> bool:
    return "$" in text or "`" in text
