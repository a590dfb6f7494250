"""A device that computes a float model in a type that it is slow in, or refuses it for that."""

from __future__ import annotations

from collections.abc import Iterator

from hetsim.analysis.linting.change import Change
from hetsim.analysis.linting.finders.kernels import seconds_on
from hetsim.analysis.linting.seen import Seen, Suspect
from hetsim.device.support.executed import is_quantized
from hetsim.hardware.executing import INT8, PRECISIONS
from hetsim.hardware.spec import FLOATS

KIND = "precision"


def precision(seen: Seen) -> Iterator[Suspect]:
    """Yield a suspect for each target that has rates for other precisions than it computes in.

    The changes execute the model in each of them, as if: times alone, of accuracy nothing is said.
    """
    problem = seen.problem
    if problem.platform is None or problem.model is None:
        return
    graph = problem.model.graph
    floats = [kind for kind in graph.dtypes.values() if kind in FLOATS]
    if not floats:
        return
    kind_of_model = max(FLOATS, key=floats.count)
    quantized = is_quantized(graph)
    for target in seen.targets:
        name = problem.devices[target.first]
        spec = problem.platform.devices[name]
        if name in problem.profiles:
            continue
        now = spec.executes or spec.execution_dtype.get(kind_of_model, kind_of_model)
        others = [
            kind
            for kind in PRECISIONS
            if kind in spec.flops_per_s
            and kind != now
            and (kind != INT8 or (spec.quantized and not quantized))
        ]
        changes = tuple(
            Change(
                f"{target.name} executes it in {kind}",
                execute=tuple((name, kind) for name in target.name.split(", ")),
            )
            for kind in others
        )
        if not changes:
            continue
        says = f"computes in {now}" if now in spec.flops_per_s else f"has no rate for {now}"
        least = None
        if seen.plan is not None:
            least = 0.0
            here_s = seconds_on(seen.plan, target.devices, problem)
            for change in changes:
                changed = seen.after(change)
                if changed is not None:
                    there_s = seconds_on(seen.plan, target.devices, changed)
                    least = max(least, here_s - there_s)
        nodes = (
            ()
            if seen.plan is None
            else tuple(
                node
                for group in seen.plan.groups
                if group.device in {problem.devices[p] for p in target.devices}
                for node in group.nodes
            )
        )
        yield Suspect(
            KIND, target.name, f"{target.name} {says}", tuple(sorted({*nodes})), least,
            changes,
        )  # fmt: skip
