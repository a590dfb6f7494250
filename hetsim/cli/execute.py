"""Runs for real: how the verbs start one, and what they say of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hetsim.cli.session import current
from hetsim.errors import ExecutionError, RequestError

if TYPE_CHECKING:
    from hetsim.execution.runner import Run
    from hetsim.faults.failure import Failure
    from hetsim.plans import Plan


@dataclass(frozen=True, slots=True)
class Executor:
    """Where and how a plan is executed; the fields are the options of ``run_options``."""

    executor: Literal["ray", "threads"]
    address: str | None
    seed: int
    timeout_s: float
    precision: Literal["graph", "device"]
    failures: tuple[Failure, ...] = ()


def execute(plan: Plan, how: Executor, inputs: Mapping[str, Any] | None = None) -> Run:
    """Run `plan` and compare its outputs with those of the whole model."""
    from hetsim.execution.runner import run

    on = {"ray": "Ray", "threads": "threads"}[how.executor]
    with current().progress(f"running {plan.strategy} on {on}"):
        return run(
            plan,
            inputs,
            executor=how.executor,
            address=how.address,
            timeout_s=how.timeout_s,
            seed=how.seed,
            precision=how.precision,
            failures=how.failures,
        )


def require_equal(mismatches: Sequence[str], where: str) -> None:
    """Raise ExecutionError, naming the outputs, where a run's differ from the whole model's."""
    if mismatches:
        raise ExecutionError(
            f"outputs differ from those of the whole model: {'; '.join(mismatches)}", where=where
        )


def read_arrays(paths: Mapping[str, Path]) -> dict[str, Any]:
    """Load each input's ``.npy`` file.

    Raises RequestError where a file is missing or holds no plain array.
    """
    import numpy as np

    arrays: dict[str, Any] = {}
    for name, path in paths.items():
        where = f"--input {name}={path}"
        try:
            with path.open("rb") as stream:
                arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
        except OSError as error:
            raise RequestError(f"cannot read: {error.strerror or error}", where=where) from error
        except MemoryError as error:
            raise RequestError("it is larger than the memory", where=where) from error
        except (ValueError, EOFError) as error:
            raise RequestError(
                "not a .npy file of a plain array", where=where, hint="write it with numpy.save"
            ) from error
    return arrays
