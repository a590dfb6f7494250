"""hetsim: which device should run which part of an ONNX model, how long it takes, and proof.

Public names of the package. Each loads its module on first use, so that ``import hetsim`` stays
light. Errors are in ``hetsim.errors``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hetsim.version import __version__

if TYPE_CHECKING:
    from typing import Any

    from hetsim.analysis.comparison import Comparison, compare
    from hetsim.analysis.explanation import Explanation, explain
    from hetsim.analysis.lint.lint import Lint, lint
    from hetsim.analysis.nodes.nodes import Nodes, nodes
    from hetsim.analysis.platforms import PlatformComparison, compare_platforms
    from hetsim.analysis.sensitivity import sensitivities
    from hetsim.analysis.timeline_check import check_timeline
    from hetsim.errors import HetsimError, Infeasible
    from hetsim.execution.run import Run, run
    from hetsim.execution.serving.load_test import LoadTest
    from hetsim.execution.serving.serve import serve
    from hetsim.execution.session import Session
    from hetsim.graph.loading import load_model, model_of
    from hetsim.graph.model import Model
    from hetsim.hardware.catalog import load_device, load_platform
    from hetsim.hardware.files.inventory import load_catalog
    from hetsim.hardware.spec import DeviceSpec, Platform
    from hetsim.hardware.what_if import what_if
    from hetsim.partitioning.affinity import Affinity
    from hetsim.partitioning.affinity_file import load_affinity
    from hetsim.partitioning.flow import partition
    from hetsim.partitioning.methods.registry import methods
    from hetsim.partitioning.partition import Partition
    from hetsim.placement.bounds.lower_bound import lower_bound
    from hetsim.placement.planning import plan
    from hetsim.placement.registry import strategies
    from hetsim.problem.groups import Group
    from hetsim.problem.plan import Plan
    from hetsim.problem.problem import Problem
    from hetsim.problem.saved import load_plan
    from hetsim.problem.timeline import Timeline
    from hetsim.provisioning.instances.answer import Placement
    from hetsim.provisioning.instances.place import place
    from hetsim.provisioning.platforms.answer import Recommendation
    from hetsim.provisioning.platforms.recommend import recommend
    from hetsim.provisioning.rates.answer import Availability, Capacity, Survived
    from hetsim.provisioning.rates.capacity import capacity
    from hetsim.provisioning.rates.redundancy import availability, survive
    from hetsim.simulation.service.service import Service
    from hetsim.simulation.simulate import simulate
    from hetsim.sweeping.files.reader import load_grid
    from hetsim.sweeping.verb import sweep
    from hetsim.workload.deployment import Deployment
    from hetsim.workload.failure import Failing, Failure
    from hetsim.workload.files.reader import load_deployment, load_workload
    from hetsim.workload.workload import Slo, Stream, Workload


# ONNX Runtime reports its use over the network unless told not to before it is loaded.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


_NAMES = {
    "hetsim.analysis.comparison": "Comparison compare",
    "hetsim.analysis.explanation": "Explanation explain",
    "hetsim.analysis.lint.lint": "Lint lint",
    "hetsim.analysis.nodes.nodes": "Nodes nodes",
    "hetsim.analysis.platforms": "PlatformComparison compare_platforms",
    "hetsim.analysis.sensitivity": "sensitivities",
    "hetsim.analysis.timeline_check": "check_timeline",
    "hetsim.errors": "HetsimError Infeasible",
    "hetsim.execution.run": "Run run",
    "hetsim.execution.serving.load_test": "LoadTest",
    "hetsim.execution.serving.serve": "serve",
    "hetsim.execution.session": "Session",
    "hetsim.graph.loading": "load_model model_of",
    "hetsim.graph.model": "Model",
    "hetsim.hardware.catalog": "load_device load_platform",
    "hetsim.hardware.spec": "DeviceSpec Platform",
    "hetsim.hardware.what_if": "what_if",
    "hetsim.partitioning.affinity": "Affinity",
    "hetsim.partitioning.affinity_file": "load_affinity",
    "hetsim.partitioning.flow": "partition",
    "hetsim.partitioning.methods.registry": "methods",
    "hetsim.partitioning.partition": "Partition",
    "hetsim.placement.bounds.lower_bound": "lower_bound",
    "hetsim.placement.planning": "plan",
    "hetsim.placement.registry": "strategies",
    "hetsim.problem.groups": "Group",
    "hetsim.problem.plan": "Plan",
    "hetsim.problem.problem": "Problem",
    "hetsim.problem.saved": "load_plan",
    "hetsim.problem.timeline": "Timeline",
    "hetsim.provisioning.instances.answer": "Placement",
    "hetsim.provisioning.instances.place": "place",
    "hetsim.provisioning.platforms.answer": "Recommendation",
    "hetsim.hardware.files.inventory": "load_catalog",
    "hetsim.provisioning.platforms.recommend": "recommend",
    "hetsim.provisioning.rates.answer": "Availability Capacity Survived",
    "hetsim.provisioning.rates.capacity": "capacity",
    "hetsim.provisioning.rates.redundancy": "availability survive",
    "hetsim.simulation.service.service": "Service",
    "hetsim.simulation.simulate": "simulate",
    "hetsim.sweeping.files.reader": "load_grid",
    "hetsim.sweeping.verb": "sweep",
    "hetsim.workload.deployment": "Deployment",
    "hetsim.workload.failure": "Failing Failure",
    "hetsim.workload.files.reader": "load_deployment load_workload",
    "hetsim.workload.workload": "Slo Stream Workload",
}
"""Public names by the module that defines them."""

_MOVED = {
    "hetsim.analysis.comparison": "Row",
    "hetsim.analysis.lint.lint": "Finding",
    "hetsim.core.plugins": "Entry Option",
    "hetsim.graph.reading.extension": "Extension load_extension",
    "hetsim.hardware.spec": "Link",
    "hetsim.partitioning.affinity": "Exclusion affinity_of_model",
    "hetsim.partitioning.deconflict": "deconflict",
    "hetsim.partitioning.housekeeping": "Housekeeping",
    "hetsim.partitioning.regions": "annotate",
    "hetsim.partitioning.sizes": "SizeRules",
    "hetsim.placement.objective": "max_load",
    "hetsim.problem.parts": "Staging",
    "hetsim.problem.timeline": "Event",
    "hetsim.provisioning.rates.answer": "SustainedRate",
}
"""Former public names, by the module that has them; errors are in ``hetsim.errors``."""

_MODULES = ("backend", "errors", "testing")

__all__ = [
    "Affinity",
    "Availability",
    "Capacity",
    "Comparison",
    "Deployment",
    "DeviceSpec",
    "Explanation",
    "Failing",
    "Failure",
    "Group",
    "HetsimError",
    "Infeasible",
    "Lint",
    "LoadTest",
    "Model",
    "Nodes",
    "Partition",
    "Placement",
    "Plan",
    "Platform",
    "PlatformComparison",
    "Problem",
    "Recommendation",
    "Run",
    "Service",
    "Session",
    "Slo",
    "Stream",
    "Survived",
    "Timeline",
    "Workload",
    "__version__",
    "availability",
    "capacity",
    "check_timeline",
    "compare",
    "compare_platforms",
    "explain",
    "lint",
    "load_affinity",
    "load_catalog",
    "load_deployment",
    "load_device",
    "load_grid",
    "load_model",
    "load_plan",
    "load_platform",
    "load_workload",
    "lower_bound",
    "methods",
    "model_of",
    "nodes",
    "partition",
    "place",
    "plan",
    "recommend",
    "run",
    "sensitivities",
    "serve",
    "simulate",
    "strategies",
    "survive",
    "sweep",
    "what_if",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"hetsim.{name}")
    for home, names in _NAMES.items():
        if name in names.split():
            globals()[name] = value = getattr(import_module(home), name)
            return value
    homes = (home for home, names in _MOVED.items() if name in names.split())
    moved = import_module(next(homes, "hetsim.errors"))
    if not isinstance(getattr(moved, name, None), type) and moved.__name__ == "hetsim.errors":
        raise AttributeError(f"module 'hetsim' has no attribute '{name}'")
    from warnings import warn

    warn(f"hetsim.{name} is {moved.__name__}.{name} now", DeprecationWarning, stacklevel=2)
    return getattr(moved, name)


def __dir__() -> list[str]:
    dunders = (name for name in globals() if name.startswith("__"))
    return sorted({*__all__, *_MODULES, *dunders})


del TYPE_CHECKING, annotations, os
