"""What partitioning is given is of the type that it says, or refused by name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hetsim.errors import InvalidInput
from hetsim.partitioning.affinity import affinity_of_model
from hetsim.partitioning.affinity_file import load_affinity
from hetsim.partitioning.borders import node_named
from hetsim.partitioning.deconflict import deconflict
from hetsim.partitioning.flow import partition
from hetsim.partitioning.regions import annotate
from hetsim.problem.problem import Problem

PROBLEM = Problem.from_arrays([[1.0, 2.0]] * 2, devices=("cpu", "npu"), host=0)
REGIONS = annotate(PROBLEM)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda **given: partition(**{"problem": PROBLEM, **given}),
         "problem method resolution regions priority affinity pins exclude choose housekeeping "
         "sizes rank assignment"),
        (lambda **given: deconflict(**{"regions": REGIONS, **given}), "regions priority choose"),
        (annotate, "problem"),
        (lambda name: node_named(PROBLEM, name), "name"),
        (lambda name: partition(PROBLEM).explain(name, 0), "name"),
        (lambda folder: partition(PROBLEM).save_onnx(folder), "folder"),
        (load_affinity, "source"),
        (lambda **given: affinity_of_model(**{"problem": PROBLEM, **given}),
         "problem configuration"),
    ],
)  # fmt: skip
def test_an_argument_of_another_type_is_named(call: Callable[..., object], names: str) -> None:
    for name in names.split():
        with pytest.raises(InvalidInput, match=name):
            call(**{name: object()})
