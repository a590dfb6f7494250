"""Kernels that are alike are priced once, for the same seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

import hetsim
from hetsim.cost import DEFAULT_COST
from hetsim.cost.model import CostModel, Estimate, Kernel
from hetsim.cost.prices import Prices
from hetsim.cost.registry import cost_model
from hetsim.hardware.spec import DeviceSpec


@dataclass
class Counting:
    """A cost model that notes what it is asked."""

    cost: CostModel
    asked: list[Kernel] = field(default_factory=list)

    def estimate(self, device: DeviceSpec, kernel: Kernel) -> Estimate:
        self.asked.append(kernel)
        return self.cost.estimate(device, kernel)


def test_what_is_alike_is_asked_for_once() -> None:
    graph = hetsim.load_model("zoo:bert_small").graph
    for device in hetsim.load_platform("laptop").devices.values():
        cost = Counting(cost_model(DEFAULT_COST))
        prices = Prices(device, cost)
        found = [prices.node(graph, node) for node in graph.nodes]
        assert len(cost.asked) == len(set(cost.asked)) < len(graph.nodes)
        alone = [Prices(device, cost).node(graph, node) for node in graph.nodes]
        assert found == alone
