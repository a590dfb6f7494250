"""hetsim: which device should run which part of an ONNX model, how long it takes, and proof.

The face of the package. Every name loads what it needs on first use, so that
``import hetsim`` stays light.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hetsim.version import __version__

if TYPE_CHECKING:
    from hetsim.analysis.comparison import Comparison, Row, compare
    from hetsim.analysis.explanation import Explanation, explain
    from hetsim.analysis.lint.lint import Finding, Lint, lint
    from hetsim.analysis.nodes.nodes import Nodes, nodes
    from hetsim.analysis.platforms import PlatformComparison, compare_platforms
    from hetsim.analysis.sensitivity import sensitivities
    from hetsim.analysis.timeline_check import check_timeline
    from hetsim.core.plugins import Entry, Option
    from hetsim.errors import (
        ArtifactError,
        Cancelled,
        CertificateRefuted,
        ClusterError,
        DeviceLost,
        DeviceUnavailable,
        ExecutionError,
        HetsimError,
        Infeasible,
        InvalidInput,
        ModelError,
        NoKernel,
        NonconformingDevice,
        NoReplacement,
        NoRoute,
        NotInstalled,
        NotOffered,
        ObjectiveMissed,
        OutOfMemory,
        OutOfRoom,
        OutputsDiffer,
        PartitionError,
        PlanError,
        PlatformError,
        PluginError,
        RequestError,
        SweepError,
        TimedOut,
        TooManyInFlight,
        UnboundDimension,
        Undecided,
        UnsupportedNode,
        UsageError,
        WorkloadError,
    )
    from hetsim.execution.run import Run, run
    from hetsim.execution.serving.load_test import LoadTest
    from hetsim.execution.serving.serve import serve
    from hetsim.execution.session import Session
    from hetsim.graph.loading import load_model, model_of
    from hetsim.graph.model import Model
    from hetsim.graph.reading.extension import Extension, load_extension
    from hetsim.hardware.catalog import load_device, load_platform
    from hetsim.hardware.spec import DeviceSpec, Link, Platform
    from hetsim.hardware.what_if import what_if
    from hetsim.partitioning.affinity import Affinity, Exclusion, affinity_of_model
    from hetsim.partitioning.affinity_file import load_affinity
    from hetsim.partitioning.deconflict import deconflict
    from hetsim.partitioning.flow import partition
    from hetsim.partitioning.housekeeping import Housekeeping
    from hetsim.partitioning.methods.registry import methods
    from hetsim.partitioning.partition import Partition
    from hetsim.partitioning.regions import annotate
    from hetsim.partitioning.sizes import SizeRules
    from hetsim.placement.bounds.lower_bound import lower_bound
    from hetsim.placement.objective import max_load
    from hetsim.placement.planning import plan
    from hetsim.placement.registry import strategies
    from hetsim.problem.groups import Group
    from hetsim.problem.parts import Staging
    from hetsim.problem.plan import Plan
    from hetsim.problem.problem import Problem
    from hetsim.problem.saved import load_plan
    from hetsim.problem.timeline import Event, Timeline
    from hetsim.provisioning.instances.answer import Placement
    from hetsim.provisioning.instances.place import place
    from hetsim.provisioning.platforms.answer import Recommendation
    from hetsim.provisioning.platforms.catalog import load_catalog
    from hetsim.provisioning.platforms.recommend import recommend
    from hetsim.provisioning.rates.answer import Availability, Capacity, Carried, Survived
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


_HOMES = {
    "Affinity": "hetsim.partitioning.affinity",
    "ArtifactError": "hetsim.errors",
    "Availability": "hetsim.provisioning.rates.answer",
    "Cancelled": "hetsim.errors",
    "CertificateRefuted": "hetsim.errors",
    "Capacity": "hetsim.provisioning.rates.answer",
    "Carried": "hetsim.provisioning.rates.answer",
    "ClusterError": "hetsim.errors",
    "Comparison": "hetsim.analysis.comparison",
    "Deployment": "hetsim.workload.deployment",
    "DeviceLost": "hetsim.errors",
    "DeviceSpec": "hetsim.hardware.spec",
    "DeviceUnavailable": "hetsim.errors",
    "Entry": "hetsim.core.plugins",
    "Event": "hetsim.problem.timeline",
    "Exclusion": "hetsim.partitioning.affinity",
    "ExecutionError": "hetsim.errors",
    "Explanation": "hetsim.analysis.explanation",
    "Extension": "hetsim.graph.reading.extension",
    "Failing": "hetsim.workload.failure",
    "Failure": "hetsim.workload.failure",
    "Finding": "hetsim.analysis.lint.lint",
    "Group": "hetsim.problem.groups",
    "HetsimError": "hetsim.errors",
    "Housekeeping": "hetsim.partitioning.housekeeping",
    "Infeasible": "hetsim.errors",
    "InvalidInput": "hetsim.errors",
    "Link": "hetsim.hardware.spec",
    "Lint": "hetsim.analysis.lint.lint",
    "Model": "hetsim.graph.model",
    "ModelError": "hetsim.errors",
    "NoKernel": "hetsim.errors",
    "NoReplacement": "hetsim.errors",
    "NoRoute": "hetsim.errors",
    "Nodes": "hetsim.analysis.nodes.nodes",
    "NonconformingDevice": "hetsim.errors",
    "NotInstalled": "hetsim.errors",
    "NotOffered": "hetsim.errors",
    "ObjectiveMissed": "hetsim.errors",
    "Option": "hetsim.core.plugins",
    "OutOfMemory": "hetsim.errors",
    "OutOfRoom": "hetsim.errors",
    "OutputsDiffer": "hetsim.errors",
    "Partition": "hetsim.partitioning.partition",
    "PartitionError": "hetsim.errors",
    "Placement": "hetsim.provisioning.instances.answer",
    "Plan": "hetsim.problem.plan",
    "PlanError": "hetsim.errors",
    "Platform": "hetsim.hardware.spec",
    "PlatformComparison": "hetsim.analysis.platforms",
    "PlatformError": "hetsim.errors",
    "PluginError": "hetsim.errors",
    "Problem": "hetsim.problem.problem",
    "Recommendation": "hetsim.provisioning.platforms.answer",
    "RequestError": "hetsim.errors",
    "Row": "hetsim.analysis.comparison",
    "Run": "hetsim.execution.run",
    "Service": "hetsim.simulation.service.service",
    "Session": "hetsim.execution.session",
    "LoadTest": "hetsim.execution.serving.load_test",
    "serve": "hetsim.execution.serving.serve",
    "SizeRules": "hetsim.partitioning.sizes",
    "Slo": "hetsim.workload.workload",
    "Staging": "hetsim.problem.parts",
    "Stream": "hetsim.workload.workload",
    "Survived": "hetsim.provisioning.rates.answer",
    "SweepError": "hetsim.errors",
    "TimedOut": "hetsim.errors",
    "Timeline": "hetsim.problem.timeline",
    "TooManyInFlight": "hetsim.errors",
    "UnboundDimension": "hetsim.errors",
    "Undecided": "hetsim.errors",
    "UnsupportedNode": "hetsim.errors",
    "UsageError": "hetsim.errors",
    "Workload": "hetsim.workload.workload",
    "WorkloadError": "hetsim.errors",
    "affinity_of_model": "hetsim.partitioning.affinity",
    "annotate": "hetsim.partitioning.regions",
    "availability": "hetsim.provisioning.rates.redundancy",
    "capacity": "hetsim.provisioning.rates.capacity",
    "check_timeline": "hetsim.analysis.timeline_check",
    "compare": "hetsim.analysis.comparison",
    "compare_platforms": "hetsim.analysis.platforms",
    "deconflict": "hetsim.partitioning.deconflict",
    "explain": "hetsim.analysis.explanation",
    "lint": "hetsim.analysis.lint.lint",
    "load_affinity": "hetsim.partitioning.affinity_file",
    "load_catalog": "hetsim.provisioning.platforms.catalog",
    "load_deployment": "hetsim.workload.files.reader",
    "load_device": "hetsim.hardware.catalog",
    "load_extension": "hetsim.graph.reading.extension",
    "load_grid": "hetsim.sweeping.files.reader",
    "load_model": "hetsim.graph.loading",
    "load_plan": "hetsim.problem.saved",
    "load_platform": "hetsim.hardware.catalog",
    "load_workload": "hetsim.workload.files.reader",
    "lower_bound": "hetsim.placement.bounds.lower_bound",
    "max_load": "hetsim.placement.objective",
    "methods": "hetsim.partitioning.methods.registry",
    "model_of": "hetsim.graph.loading",
    "nodes": "hetsim.analysis.nodes.nodes",
    "partition": "hetsim.partitioning.flow",
    "place": "hetsim.provisioning.instances.place",
    "plan": "hetsim.placement.planning",
    "recommend": "hetsim.provisioning.platforms.recommend",
    "run": "hetsim.execution.run",
    "sensitivities": "hetsim.analysis.sensitivity",
    "simulate": "hetsim.simulation.simulate",
    "strategies": "hetsim.placement.registry",
    "survive": "hetsim.provisioning.rates.redundancy",
    "sweep": "hetsim.sweeping.verb",
    "what_if": "hetsim.hardware.what_if",
}


__all__ = [
    "Affinity",
    "ArtifactError",
    "Availability",
    "Cancelled",
    "Capacity",
    "Carried",
    "CertificateRefuted",
    "ClusterError",
    "Comparison",
    "Deployment",
    "DeviceLost",
    "DeviceSpec",
    "DeviceUnavailable",
    "Entry",
    "Event",
    "Exclusion",
    "ExecutionError",
    "Explanation",
    "Extension",
    "Failing",
    "Failure",
    "Finding",
    "Group",
    "HetsimError",
    "Housekeeping",
    "Infeasible",
    "InvalidInput",
    "Link",
    "Lint",
    "LoadTest",
    "Model",
    "ModelError",
    "NoKernel",
    "NoReplacement",
    "NoRoute",
    "Nodes",
    "NonconformingDevice",
    "NotInstalled",
    "NotOffered",
    "ObjectiveMissed",
    "Option",
    "OutOfMemory",
    "OutOfRoom",
    "OutputsDiffer",
    "Partition",
    "PartitionError",
    "Placement",
    "Plan",
    "PlanError",
    "Platform",
    "PlatformComparison",
    "PlatformError",
    "PluginError",
    "Problem",
    "Recommendation",
    "RequestError",
    "Row",
    "Run",
    "Service",
    "Session",
    "SizeRules",
    "Slo",
    "Staging",
    "Stream",
    "Survived",
    "SweepError",
    "TimedOut",
    "Timeline",
    "TooManyInFlight",
    "UnboundDimension",
    "Undecided",
    "UnsupportedNode",
    "UsageError",
    "Workload",
    "WorkloadError",
    "__version__",
    "affinity_of_model",
    "annotate",
    "availability",
    "capacity",
    "check_timeline",
    "compare",
    "compare_platforms",
    "deconflict",
    "explain",
    "lint",
    "load_affinity",
    "load_catalog",
    "load_deployment",
    "load_device",
    "load_extension",
    "load_grid",
    "load_model",
    "load_plan",
    "load_platform",
    "load_workload",
    "lower_bound",
    "max_load",
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
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'hetsim' has no attribute '{name}'")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
