"""Cost model ``fitted``: kernel times by figures fitted to measurements of devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hetsim.cost.kernels.float_equivalent import executed_dtype, figures_for, model_figures
from hetsim.cost.kernels.formula import (
    COLUMN,
    FORMS,
    PRODUCTS,
    RELATIVE,
    TILED,
    factors,
    features,
    kernel_parts,
    streamed_share,
)
from hetsim.cost.kernels.similarity import predicted_by_family
from hetsim.cost.model import Estimate, Kernel
from hetsim.cost.roofline import Roofline
from hetsim.graph.graph import ITEM_BITS, Graph
from hetsim.graph.work import Work
from hetsim.hardware.kernel_figures import INDEX, KernelFigures, weakest
from hetsim.hardware.kin import Likely
from hetsim.hardware.spec import DeviceSpec

_ROOFLINE = Roofline()
_WORK = tuple(
    COLUMN[name] for name in ("flops", "read_bytes", "write_bytes", "weight_bytes", "exp_bytes")
)
_FORM = COLUMN["form"]
_ON_CHIP = INDEX["weights_on_chip_mib"]


@dataclass(frozen=True, slots=True)
class Fitted:
    """Formula of ``hetsim.cost.kernels.formula`` at the device's figures for the precision.

    A precision without figures takes the nearest one's, see ``figures_for``; a device without any
    is priced by the roofline. A kernel that neither computes nor moves anything, a view, is free.
    An estimate names the device family that shares its error, and the weakest status of the figures
    behind its largest part.

    - `weights`: bytes of weights of all nodes on the device, by element type in the graph: those
    that do not fit on the chip are read at every run. Empty: none stay there.
    - `alike`: adjustment by the device family to the whole model: a factor on all its kernels.
    """

    weights: Mapping[str, int] = field(default_factory=dict)
    alike: Likely | None = None
    _known: dict[tuple[int, int, int, str], _Choice] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def of_works(self, works: Sequence[Work], likely: Likely | None = None) -> Fitted:
        """Return the cost model for a graph with the works that a device runs. O(V)."""
        weights: dict[str, int] = {}
        for work in works:
            stored = work.integer_bytes
            for dtype, nbytes in ((work.dtype, work.weight_bytes - stored), ("int8", stored)):
                if nbytes:
                    weights[dtype] = weights.get(dtype, 0) + nbytes
        return Fitted(weights, likely)

    def figures(
        self, device: DeviceSpec, graph: Graph, works: Sequence[Work]
    ) -> KernelFigures | None:
        """Return the figures for most of `graph` on `device`; see ``model_figures``."""
        return model_figures(device, graph, works)

    def likely(self, graph: Graph, figures: KernelFigures | None, batch: int = 1) -> Likely | None:
        """Return the prediction for `graph` by the device family of `figures`."""
        return None if figures is None else predicted_by_family(graph, figures, batch)

    def estimate(self, device: DeviceSpec, kernel: Kernel) -> Estimate:
        """Return the time of `kernel` on `device`. O(members)."""
        if not device.kernels:
            return _ROOFLINE.estimate(device, kernel)
        row: list[float] = features(kernel, device).tolist()
        if not any(row[column] for column in _WORK):
            return Estimate(0.0, 0.0, 0.0, 0.0, "fitted; a view")
        choice = self._choice(device, executed_dtype(device, kernel.works))
        seconds, *parts = kernel_parts(choice.figures.values, row, choice.streamed)
        factor = choice.factor(row)
        if self.alike is not None:
            factor *= self.alike.factor
        arithmetic, activations, weights, launch = (part * factor for part in parts)
        return Estimate(
            seconds=seconds * factor,
            compute_s=arithmetic,
            memory_s=activations + weights,
            launch_s=launch,
            provenance=choice.provenance(int(row[_FORM]), parts.index(max(parts))),
        )

    def _choice(self, device: DeviceSpec, dtype: str) -> _Choice:
        # Devices with an assumed precision share all tables with their originals: these are
        # distinguished by identity, which is stable while cached entries hold them.
        tables = (id(device.kernels), id(device.flops_per_s), id(device.execution_dtype))
        found = self._known.get((*tables, dtype))
        if found is None:
            figures, note = figures_for(device, dtype)
            if self.alike is not None:
                note = "; ".join(word for word in (note, str(self.alike)) if word)
            held = sum(
                nbytes * ITEM_BITS[device.execution_dtype.get(kind, kind)] / ITEM_BITS[kind]
                for kind, nbytes in self.weights.items()
            )
            streamed = streamed_share(figures.values[_ON_CHIP], held)
            found = _Choice(device, figures, note, streamed, held)
            self._known[*tables, dtype] = found
        return found


@dataclass(frozen=True, slots=True)
class _Choice:
    """Device's figures for one element type, total weights, and the share that is streamed."""

    device: DeviceSpec
    figures: KernelFigures
    note: str
    streamed: float
    weight_bytes: float
    _told: dict[tuple[int, int], str] = field(default_factory=dict, repr=False, compare=False)

    def factor(self, row: list[float]) -> float:
        """Return the factor on the formula's seconds, see ``corrections`` of figures."""
        if not self.figures.corrections:
            return 1.0
        found = factors(self.figures.corrections, np.array([row]), self.weight_bytes)
        return float(found[0])

    def provenance(self, form: int, part: int) -> str:
        """Return the provenance of a kernel of a form whose largest component is `part`."""
        if (form, part) not in self._told:
            status = weakest(self.figures.provenance[name][0] for name in _by(form, part))
            words = ("fitted", self.figures.kin, status, self.note)
            self._told[form, part] = "; ".join(word for word in words if word)
        return self._told[form, part]


def _by(form: int, part: int) -> tuple[str, ...]:
    """Return the parameters behind a component of a kernel, ordered as in ``kernel_parts``."""
    name = FORMS[form]
    product = name in PRODUCTS
    own = [RELATIVE[name]] if name in RELATIVE else []
    if name == "concat":
        own.append("movement")
    tiled = name in TILED
    if part == 0:
        channels = ("fill_columns", "fill_depth", "channel_granule")
        fills = ("fill_rows", "fill_outputs", *(() if name == "depthwise" else channels))
        return ("rate_tflops", *own, *fills, *(["tile_compute"] if tiled else []))
    if part == 1:
        traffic = own if not product else ["tile_traffic"] if tiled else []
        return ("bandwidth_gbytes_s", "cache_mib", "beyond_cache", *traffic)
    if part == 2:
        return ("weights_gbytes_s", "weights_on_chip_mib")
    return ("launch_us",) if product else ("launch_us", "launch_other")
