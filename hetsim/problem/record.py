"""Record of a problem as plain data, the same for the same question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp
from typing import TYPE_CHECKING

from hetsim.core.text import Record, fields
from hetsim.graph.graph import ITEM_BITS
from hetsim.hardware.kernel_figures import WHAT_IF, weakest
from hetsim.hardware.measurement import Measurement
from hetsim.problem.parts import Z80, Evidence, Measured
from hetsim.problem.problem import Problem

if TYPE_CHECKING:
    from hetsim.graph.model import Model
    from hetsim.hardware.spec import Platform


def seen_record(model: Model) -> Record | None:
    """Return the record of a recorded run of the model: its inputs, and number of shapes found."""
    seen = model.observed
    if seen is None:
        return None
    return {
        "source": seen.source,
        "measured_shapes": len(seen.shapes),
        "shapes_by_data": sum(model.graph.tensors[name].measured for name in seen.shapes),
        "branches": dict(sorted(seen.branches.items())),
        "trips": dict(sorted(seen.trips.items())),
    }


def problem_record(problem: Problem) -> Record:
    """Return the question as data: model, platform, devices, and contention of links."""
    model, platform = problem.model, problem.platform
    return {
        "name": problem.name,
        "fingerprint": problem.fingerprint,
        "model": None
        if model is None
        else {
            "name": model.name,
            **model_record(model),
            "frozen": sorted(model.frozen),
            "observed": seen_record(model),
        },
        "platform": None
        if platform is None
        else {**fields(platform, "name source sha256"), **supposed_record(platform)},
        "nodes": problem.n,
        "devices": list(problem.devices),
        "host": None if problem.host is None else problem.devices[problem.host],
        "contention": problem.contention,
        "execute": problem.executed,
        "cost": problem.cost or None,
        "pessimistic": problem.pessimistic,
        "unpriced": unpriced_record(problem),
        "unsized": _by_name(problem, problem.unsized),
        **({"uncounted": kinds} if (kinds := uncounted(problem)) else {}),
        "profiles": measured_record(problem),
        **({"measured": given_record(problem.measured)} if problem.measured else {}),
        "figures": None
        if platform is None
        else figures_record(
            problem.evidence, problem.link_evidence, supposed=platform.supposed is not None
        ),
    }


def model_record(model: Model) -> Record:
    """Return the entries that identify a model for loading, except arrays and extensions."""
    return {
        **fields(model, "source sha256 canonical"),
        "dims": dict(sorted(model.dims.items())),
        "shapes": {name: list(shape) for name, shape in sorted(model.shapes.items())},
    }


def supposed_record(platform: Platform) -> Record:
    """Return the variant of a platform: its runtimes, and the changes of ``what_if``.

    Empty without any.
    """
    record: Record = {}
    if platform.runtime:
        record["runtime"] = dict(platform.runtime)
    if platform.supposed is not None:
        record["what_if"] = list(platform.supposed.changes)
        record["without"] = list(platform.supposed.without)
    return record


def weakest_of(
    devices: Sequence[Evidence], links: Sequence[Evidence], *, supposed: bool = False
) -> str:
    """Return the weakest status of several.

    Any `supposed` change of the platform, even a removed part, makes it hypothetical.
    """
    return WHAT_IF if supposed else weakest(one.status for one in (*devices, *links))


def figures_record(
    devices: Sequence[Evidence], links: Sequence[Evidence], *, supposed: bool = False
) -> Record:
    """Return the evidence: the weakest status, and that of each device and link."""
    return {
        "weakest": weakest_of(devices, links, supposed=supposed),
        "devices": {one.name: evidence_record(one) for one in devices},
        "links": {one.name: evidence_record(one) for one in links},
    }


def evidence_record(one: Evidence) -> Record:
    """Return the evidence behind one device or link, and the error of its times."""
    return {
        **fields(one, "of status"),
        **({"before": one.before} if one.before else {}),
        **fields(one, "precision? runtime? kin? sd common_sd=common"),
        "within_80": exp(Z80 * one.sd),
        "floors": {floor.reason: floor.sd for floor in one.floors},
        **fields(one, "rests_on=basis measured_share=measured"),
        **({} if one.measured_here is None else {"measured_here": here_record(one.measured_here)}),
        **fields(one, "likely(factor sd usual_sd same networks) error"),
    }


def here_record(here: Measured) -> Record:
    """Return the factor and errors of the user's measurements on a device."""
    return {
        **fields(here, "networks factor"),
        "measured_over_predicted": [
            one.seconds / predicted_s
            for one, predicted_s in zip(here.measurements, here.predicted_s, strict=True)
        ],
        "left_out": list(here.left_out),
    }


def given_record(measured: Mapping[str, Measured]) -> dict[str, list[Record]]:
    """Return the measurements by device, each with the digest of its network."""
    return {
        device: [
            {**fields(one), "sha256": sha256}
            for one, sha256 in zip(here.measurements, here.sha256, strict=True)
        ]
        for device, here in measured.items()
    }


def read_given(stated: object) -> dict[str, list[tuple[Measurement, str]]]:
    """Return measurements by device with digests, as ``given_record`` wrote them.

    Raises AttributeError, KeyError, TypeError, ValueError or UsageError for other records.
    """
    if not isinstance(stated, dict):
        raise TypeError(stated)
    kinds = {"seconds": float, "batch": int, "threads": int, "in_device_file": bool}
    found: dict[str, list[tuple[Measurement, str]]] = {}
    for device, entries in stated.items():
        for entry in entries:
            own = {key: value for key, value in entry.items() if key != "sha256"}
            if any(type(value) is not kinds.get(key, str) for key, value in own.items()):
                raise TypeError(entry)
            found.setdefault(device, []).append((Measurement(**own), str(entry["sha256"])))
    return found


def measured_record(problem: Problem) -> dict[str, Record]:
    """Return, by device with a profile, the share of its prices that is measured."""
    return {
        device: {
            **fields(
                share,
                "format=profile.format source=profile.source sha256=profile.sha256 "
                "runs=profile.runs rule=profile.rule measured_share=share",
            ),
            "measured_nodes": sum(share.measured),
            **fields(
                share,
                "nodes inside_nodes=inside measured_s modelled_s profile_s=profile.total_s "
                "profile_runs_s=profile.totals_s between_s=profile.between_s by_name_s by_place_s "
                "unmatched_s unmatched(kernel=name seconds why) elsewhere_s moved_s",
            ),
        }
        for device, share in problem.profiles.items()
    }


def unpriced_record(problem: Problem) -> dict[str, str]:
    """Return the unpriced nodes and the reasons, by name."""
    return _by_name(problem, problem.unpriced)


def uncounted(problem: Problem) -> dict[str, str]:
    """Return the type of each value that counts as 0 bytes, as its size is known only in a run."""
    tensors = {} if problem.model is None else problem.model.graph.tensors
    kinds = {v.name: tensors[v.name].dtype for v in problem.values if v.name in tensors}
    return {name: kind for name, kind in kinds.items() if kind not in ITEM_BITS}


def _by_name(problem: Problem, nodes: Mapping[int, str]) -> dict[str, str]:
    return {problem.node_names[node]: why for node, why in sorted(nodes.items())}
