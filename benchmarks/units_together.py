"""Published rows of several units at once against plans of them on the virtual clock.

JSON lines out: a line a row with what was measured and what is predicted, the reasons why others
are not, then the median and the 90th percentile of the relative error by kind of plan. Nothing is
fitted to these rows: each unit has the figures that it has alone, and the plan is the one that the
row's runtime makes.

*Copies* (graphics and DLAs, cores and graphics): the whole network on each unit at the batch that
fits take for rates, requests dealt out by ``multi``, within the power that the package may draw
for long; a rate. *Fallback* (an NPU whose runtime leaves some ops to the cores): ``hetero`` with
the ops that the runtime refuses; a latency.

``--without power`` and ``--without memory`` let devices that are busy at once keep the power or the
bandwidth that they have alone,
``--without dequantizing`` lets weights that the cores read be stored in floats, ``--without
datasheet`` prices these products by the figures of another runtime that the catalog has for the
cores, ``--without fallback`` gives the NPU all of the network: what each of these is worth.

``python benchmarks/units_together.py`` takes about half a minute.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import yaml
from onnx import numpy_helper

import hetsim
from hetsim.cost.kernels.chosen import figures_for
from hetsim.cost.kernels.features import COLUMN
from hetsim.cost.kernels.form import streamed_share
from hetsim.cost.kernels.table import KernelTable, network_table
from hetsim.cost.kernels.totals import kernels_seconds
from hetsim.errors import HetsimError, OutOfMemory
from hetsim.fitting.comparable import BULK_BATCH
from hetsim.fitting.graphs import Graphs, read_graphs
from hetsim.fitting.measured import measured_folder, read_rows
from hetsim.fitting.precisions import ITEM_BYTES, precision_of
from hetsim.graph.loading import model_of
from hetsim.graph.model import Model
from hetsim.hardware.kernel_figures import INDEX
from hetsim.hardware.spec import Platform
from hetsim.problem.scaled import scaled

Row = Mapping[str, Any]

WITHOUT = ("power", "memory", "dequantizing", "datasheet", "fallback")

REQUESTS = 200
"""Batches that are dealt out: beginning and end of the stream are a hundredth of it."""

CATALOG = {
    "Intel Core Ultra 7 165H": "laptop",
    "NVIDIA Jetson AGX Orin": "jetson-agx-orin",
    "NVIDIA Jetson Orin NX": "jetson-orin-nx",
    "QCS6490": "rb3-gen-2",
    "QCS9075": "iq-9075",
    "Snapdragon 8 Gen 3": "snapdragon-phone",
    "Snapdragon X Elite": "snapdragon-laptop",
}
"""Platforms of the catalog, by what rows call the chip; of the 165H that of its sister 155H."""

OWN = {
    "NVIDIA Jetson AGX Xavier": (136.5, None, "nvidia-jetson-agx-xavier-{}", ("gpu", "dla")),
    "NVIDIA Jetson Xavier NX": (59.7, None, "nvidia-jetson-xavier-nx-{}", ("gpu", "dla")),
    "Intel i7-1185G7": (68.3, 28, "intel-core-i7-1185g7-{}", ("cpu", "igpu")),
    "Intel i7-1360P": (83.2, 28, "intel-core-i7-1360p-{}", ("cpu", "igpu")),
}
"""Chips whose units are in the catalog: GB/s of their memory, watts of the package where its
maker states them, and devices; the first is the host."""


@cache
def platform_of(chip: str) -> Platform | None:
    """Return the platform that stands for a chip, or None."""
    if chip in CATALOG:
        return hetsim.load_platform(CATALOG[chip])
    if chip not in OWN:
        return None
    gbytes_s, watts, pattern, units = OWN[chip]
    names = [unit.replace("igpu", "gpu") for unit in units]
    written = {
        "host": names[0],
        **({} if watts is None else {"power_w": watts}),
        "devices": {n: pattern.format(unit) for n, unit in zip(names, units, strict=True)},
        # A copy within one memory, as the shared links of the catalog are.
        "links": [
            {
                "between": names,
                "latency_us": 0.5,
                "bandwidth_gbytes_s": gbytes_s / 2,
                "efficiency": 0.6,
                "duplex": False,
                "bus": "memory",
            }
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "platform.yaml")
        path.write_text(yaml.safe_dump(written), encoding="utf-8")
        return hetsim.load_platform(str(path))


def left_out(row: Row) -> str | None:
    """Return why a row cannot be predicted, or None."""
    if not row.get("graphs"):
        return "no graph stands for the network"
    if platform_of(row["chip"]) is None:
        return "the chip is not in the catalog"
    words = f"{row['source']} {row.get('config')}".lower()
    if "maxq" in words:
        return "a board held below its power, at clocks that are not told"
    if "dlas are not used in the offline" in words:
        return "its own notes say that one unit ran"
    if row["unit"] in FALLBACK and refused_by(row) is None:
        return "which ops the runtime refuses is not known"
    return None


# Copies of the network --------------------------------------------------------------------------


def batched(proto: onnx.ModelProto, batch: int) -> onnx.ModelProto:
    """Return a network of one sample as it is for `batch` of them.

    Inputs and the shapes to which it reshapes begin with the batch. What is stored stays.
    """
    larger = onnx.ModelProto()
    larger.CopyFrom(proto)
    graph = larger.graph
    del graph.value_info[:]
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].dim_value *= batch
    shapes = {node.input[1] for node in graph.node if node.op_type == "Reshape"}
    for stored in graph.initializer:
        if stored.name in shapes:
            sizes = numpy_helper.to_array(stored).copy()
            if sizes[0] == 1:
                sizes[0] = batch
                stored.CopyFrom(numpy_helper.from_array(sizes, stored.name))
    return larger


_MOVED = [COLUMN[name] for name in ("read_bytes", "write_bytes", "weight_bytes")]
_BANDWIDTHS = [INDEX[name] for name in ("bandwidth_gbytes_s", "weights_gbytes_s")]


class Networks:
    """Networks of the archive, the last one loaded kept: rows come sorted by them."""

    def __init__(self, graphs: Graphs) -> None:
        self.graphs = graphs
        self._last: tuple[tuple[str, int], Model] | None = None
        self._tables: dict[str, KernelTable] = {}

    def proto(self, file: str) -> onnx.ModelProto:
        """Return the network as its file has it."""
        return onnx.load_model_from_string(self.graphs.content(file))

    def table(self, row: Row) -> KernelTable:
        """Return the kernels of the row's network."""
        file = network_of(row)
        if file not in self._tables:
            self._tables[file] = network_table(self.graphs.load(file).graph)
        return self._tables[file]

    def load(self, file: str, batch: int = 1) -> Model:
        """Return the network for so many samples."""
        if self._last is None or self._last[0] != (file, batch):
            proto = self.proto(file)
            model = model_of(batched(proto, batch) if batch > 1 else proto, name=Path(file).stem)
            self._last = (file, batch), model
        return self._last[1]


def copies_s(
    row: Row, networks: Networks, cost: str, without: Collection[str]
) -> tuple[float, dict[str, Any]]:
    """Return the seconds a sample of copies of the network on each unit, and how they came."""
    platform = platform_of(row["chip"])
    assert platform is not None
    units = row["unit"].split("+")
    precision = precision_of(row["precision"]) or row["precision"]
    batch = BULK_BATCH
    while True:
        model = networks.load(network_of(row), batch)
        problem = hetsim.Problem.of(
            model, platform, cost=cost, execute=dict.fromkeys(units, precision)
        )
        try:
            plan = hetsim.plan(problem, f"multi:{','.join(units)}")
            break
        except OutOfMemory:
            if batch == 1:
                raise
            batch //= 2
    alone = {unit: _rate(problem, unit, batch) for unit in units}
    slower = dict.fromkeys(units, 1.0)
    if "memory" not in without and cost == "fitted":
        slower = by_shared_memory(problem, units, precision, batch, alone, networks.table(row))
    factors = np.array([slower.get(name, 1.0) for name in problem.devices])
    shared = scaled(problem, factors, np.ones((len(factors), len(factors))))
    plan = hetsim.plan(shared, f"multi:{','.join(units)}")
    spent = hetsim.simulate(plan, REQUESTS, trace=False, sustained="power" not in without)
    return spent.makespan_s / (REQUESTS * batch), {
        "batch": batch,
        "deal": list(plan.deal),
        "alone_per_s": {unit: round(rate, 2) for unit, rate in alone.items()},
        "slower_by_memory": {unit: round(factor, 3) for unit, factor in slower.items()},
    }


def _rate(problem: hetsim.Problem, unit: str, batch: int) -> float:
    """Return the samples a second of one unit alone."""
    plan = hetsim.plan(problem, f"multi:{unit}")
    return batch * REQUESTS / hetsim.simulate(plan, REQUESTS, trace=False).makespan_s


def by_shared_memory(
    problem: hetsim.Problem,
    units: Sequence[str],
    precision: str,
    batch: int,
    alone_per_s: Mapping[str, float],
    table: KernelTable,
) -> dict[str, float]:
    """Return by what factor each unit is slower as others draw on the memory that all share.

    What a unit's kernels get of the bandwidth that it has alone is what the others leave of the
    memory's: of its peak times the best share that one of the units reaches. Each stream of a
    device is one that draws. Iterated, for slower units draw less. O(k).
    """
    assert problem.platform is not None
    specs = {unit: problem.platform.devices[unit] for unit in units}
    if not all(spec.kernels for spec in specs.values()):
        return dict.fromkeys(units, 1.0)
    most = max(spec.bytes_per_s * spec.memory_efficiency for spec in specs.values())
    item = ITEM_BYTES[precision]
    rows = table.at(batch, item)
    moved = float(table.counts @ rows[:, _MOVED].sum(axis=1)) / batch
    slower = dict.fromkeys(units, 1.0)
    for _ in range(30):
        drawn = {unit: alone_per_s[unit] / slower[unit] * moved for unit in units}
        for unit, spec in specs.items():
            others = sum(drawn.values()) - drawn[unit] / spec.streams
            left = max(0.05, 1.0 - others / most)
            figures, _ = figures_for(spec, precision)
            values = np.array(figures.values)
            held = streamed_share(
                figures.value("weights_on_chip_mib"), table.weight_bytes(float(item))
            )
            full_s = float(table.counts @ kernels_seconds(values, rows, held))
            values[_BANDWIDTHS] *= left
            found = float(table.counts @ kernels_seconds(values, rows, held)) / full_s
            slower[unit] = math.sqrt(slower[unit] * found)
    return slower


# An NPU with others to fall back to -------------------------------------------------------------


def products_by_channel(proto: onnx.ModelProto) -> list[str]:
    """Return the MatMul nodes with stored weights.

    ONNX Runtime's QNN provider takes weights that are quantized by channel in convolutions alone
    (github microsoft/onnxruntime, pull request 20154): each such product is two nodes of its CPU
    provider, which dequantizes the weights and multiplies in floats.
    """
    stored = {tensor.name for tensor in proto.graph.initializer}
    found = []
    for node in proto.graph.node:
        if node.op_type in ("Constant", "ConstantOfShape") or (
            node.op_type in ("Transpose", "Reshape") and node.input[0] in stored
        ):
            stored.update(node.output)
        if node.op_type == "MatMul" and node.input[1] in stored:
            found.append(node.name)
    return found


def stored_elements(proto: onnx.ModelProto, names: list[str]) -> int:
    """Return how many weights nodes of a file read, each as often as it is read."""
    sizes = {tensor.name: math.prod(tensor.dims) for tensor in proto.graph.initializer}
    values = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer if len(t.dims) == 1}
    for node in proto.graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in values:
            sizes[node.output[0]] = math.prod(values[node.input[0]].tolist())
        elif node.op_type in ("Transpose", "Reshape") and node.input[0] in sizes:
            sizes[node.output[0]] = sizes[node.input[0]]
    wanted = set(names)
    return sum(
        sizes[name]
        for node in proto.graph.node
        if node.name in wanted
        for name in node.input
        if name in sizes
    )


def by_datasheet(platform: Platform, device: str) -> Platform:
    """Return the platform with a device priced by its datasheet.

    Its figures are of ncnn, which says nothing of how ONNX Runtime multiplies matrices.
    """
    spec = dataclasses.replace(platform.devices[device], kernels={})
    return dataclasses.replace(platform, devices={**platform.devices, device: spec})


def normalizations(proto: onnx.ModelProto) -> list[str]:
    """Return the LayerNormalization nodes, ten ops of a TensorFlow Lite file each."""
    return [node.name for node in proto.graph.node if node.op_type == "LayerNormalization"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a runtime's NPU delegate leaves to others.

    Attributes
    ----------
    nodes : function
        Of the network's file: the names of these nodes.
    ops : int
        So many ops of the runtime each.
    cores : str
        Precision in which the cores compute them.
    """

    nodes: Callable[[onnx.ModelProto], list[str]]
    ops: int
    cores: str


DEQUANTIZE_S = 1.24e-9
"""Of a weight that is quantized by column, on one core: ONNX Runtime 1.31 on an AMD Zen 5, a scalar
loop of one thread (github microsoft/onnxruntime, issue 24124). It is run at every inference."""

FALLBACK = ("npu+cpu", "npu+gpu+cpu")


def refused_by(row: Row) -> Refusal | None:
    """Return what the runtime of a row refuses; None where that is not known."""
    runtime, precision = row["runtime"], precision_of(row["precision"])
    if runtime.startswith("ONNX Runtime") and precision in ("int8", "w8a16"):
        return Refusal(products_by_channel, 2, "float32")
    if runtime.startswith("TFLite") and row["unit"] == "npu+gpu+cpu" and precision == "int8":
        return Refusal(normalizations, 10, "int8")
    return None


def fallback_s(
    row: Row, networks: Networks, cost: str, without: Collection[str]
) -> tuple[float, dict[str, Any]]:
    """Return the latency where the NPU has all but what its runtime refuses, and how it came."""
    platform, refusal = platform_of(row["chip"]), refused_by(row)
    assert platform is not None
    assert refusal is not None
    file = network_of(row)
    refused = [] if "fallback" in without else refusal.nodes(networks.proto(file))
    stored = stored_elements(networks.proto(file), refused) if refusal.cores == "float32" else 0
    if refusal.cores == "float32" and "datasheet" not in without:
        platform = by_datasheet(platform, "cpu")
    execute = {"npu": "int8"} | ({"cpu": "int8"} if refusal.cores == "int8" else {})
    problem = hetsim.Problem.of(networks.load(file), platform, cost=cost, execute=execute)
    wishes = hetsim.Affinity(pins=dict.fromkeys(refused, "cpu"))
    plan = hetsim.plan(problem, "hetero:npu,cpu", affinity=wishes)
    spent = hetsim.simulate(plan)
    count = refusal.ops * len(refused)
    layers = row["layers"]
    dequantized_s = 0.0 if "dequantizing" in without else stored * DEQUANTIZE_S
    return spent.latency_s + dequantized_s, {
        "ops_on_others": {"measured": layers["total"] - layers["npu"], "by_rule": count},
        "subgraphs": dict(Counter(group.device for group in plan.groups)),
        "busy_ms": {name: round(1e3 * s, 3) for name, s in spent.device_busy_s.items() if s},
        "transfer_ms": round(1e3 * spent.transfer_s, 3),
        "dequantized_ms": round(1e3 * dequantized_s, 3),
    }


# All rows ---------------------------------------------------------------------------------------


def network_of(row: Row) -> str:
    """Return the file that stands for the row's network best."""
    first = row["graphs"][0]
    name: str = first["file"] if isinstance(first, Mapping) else first
    return name


def run(cost: str, kinds: set[str], without: Collection[str]) -> None:
    """Predict the rows of several units and print them, then the errors by kind."""
    folder = measured_folder()
    networks = Networks(read_graphs(folder))
    rows = [row for row in read_rows(folder) if "+" in row["unit"] and row["unit"] in kinds]
    left = Counter(reason for row in rows if (reason := left_out(row)) is not None)
    taken = [row for row in rows if left_out(row) is None]
    errors: dict[str, list[float]] = {}
    known: dict[tuple[Any, ...], tuple[float, dict[str, Any]]] = {}
    for row in sorted(taken, key=lambda row: (network_of(row), row["unit"], row["chip"])):
        fallback = row["unit"] in FALLBACK
        asked = (network_of(row), row["unit"], row["chip"], row["precision"], row["runtime"])
        same = asked if fallback else asked[:-1]
        try:
            if same not in known:
                known[same] = (fallback_s if fallback else copies_s)(row, networks, cost, without)
        except HetsimError as error:
            left[f"{type(error).__name__}: {error}"] += 1
            continue
        seconds, how = known[same]
        measured = row["latency_ms"] / 1e3 if fallback else 1 / row["throughput_per_s"]
        errors.setdefault(row["unit"], []).append(seconds / measured)
        emit(
            unit=row["unit"],
            chip=row["chip"],
            model=row["model"],
            precision=row["precision"],
            runtime=row["runtime"],
            source=row["source"],
            measured_ms=round(1e3 * measured, 4),
            predicted_ms=round(1e3 * seconds, 4),
            ratio=round(seconds / measured, 3),
            **how,
        )
    for reason, count in left.items():
        emit(rows=count, not_predicted=reason)
    for kind, ratios in [*errors.items(), ("all", [r for own in errors.values() for r in own])]:
        off = sorted(abs(ratio - 1) for ratio in ratios)
        if off:
            emit(
                unit=kind,
                rows=len(off),
                median_error=round(statistics.median(off), 3),
                p90_error=round(off[math.ceil(0.9 * len(off)) - 1], 3),
                median_ratio=round(statistics.median(ratios), 3),
            )


def emit(**record: Any) -> None:
    """Print one JSON line."""
    print(json.dumps({"benchmark": "units_together", **record}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cost", default="fitted", help="the cost model")
    parser.add_argument("--units", action="append", help="of these units alone, as rows say them")
    parser.add_argument("--without", action="append", choices=WITHOUT, help="one of its reasons")
    asked = parser.parse_args()
    run(
        asked.cost,
        set(asked.units or ("gpu+dla", "cpu+gpu", *FALLBACK)),
        frozenset(asked.without or ()),
    )
