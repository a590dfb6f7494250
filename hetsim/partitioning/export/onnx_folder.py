"""A partition as ONNX files: the split model, the annotated one, and one model a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hetsim.core.files import draft_folder
from hetsim.core.room import out_of_room
from hetsim.errors import InvalidInput, OutOfRoom, UsageError
from hetsim.partitioning.export.as_onnx import identifier, to_annotated, to_functions, to_models
from hetsim.partitioning.export.onnx_saving import save
from hetsim.problem.groups import Group
from hetsim.problem.problem import Problem


def check_folder(folder: Path) -> None:
    """Raise UsageError where `folder` exists and is no empty folder, or is a broken link."""
    if folder.is_symlink() and not folder.exists():
        raise UsageError("it is a broken link", where=str(folder), hint="name a new folder")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError("it exists and is not empty", where=str(folder), hint="name a new folder")


def save_all(problem: Problem, groups: Sequence[Group], folder: Path) -> tuple[str, ...]:
    """Write a partition as ONNX to a new folder, all files or none; return their names.

    ``split.onnx`` holds every group as a function, ``annotated.onnx`` the graph with each
    node's device, and ``g3_npu.onnx`` and the like one group each. Weights lie beside them.

    Raises
    ------
    UsageError
        Where the folder exists and is not empty, or the problem has no model.
    InvalidInput, OutOfRoom
        Where the disk refuses, or is full.
    """
    check_folder(folder)
    model = problem.model
    if model is None:
        raise UsageError("the problem has no model", hint="build it with Problem.of")
    parts = to_models(problem, groups)
    protos = {"split": to_functions(problem, groups), "annotated": to_annotated(problem, groups)}
    for index, (group, part) in enumerate(zip(groups, parts, strict=True)):
        protos[f"g{index}_{identifier(group.device)}"] = part
    target = folder.resolve()
    try:
        with draft_folder(target) as draft:
            for name, proto in protos.items():
                save(proto, draft / f"{name}.onnx", model.weights_dir)
            draft.replace(target)
    except OutOfRoom as error:
        # Said of the folder that is asked for, and not of the one that it is written to first.
        raise replace(error, where=str(folder)) from error
    except OSError as error:
        raise out_of_room(error, folder) or InvalidInput(
            f"cannot write: {error.strerror or error}", where=str(folder)
        ) from error
    return tuple(f"{name}.onnx" for name in protos)
