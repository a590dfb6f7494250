"""Cost models of other packages: asked as they are, and what they give amiss told of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from figure_builders import kernel_figures
from hetsim.cost.fitted import Fitted
from hetsim.cost.model import CostModel, Kernel, WholeModelCost
from hetsim.cost.registry import watched
from hetsim.cost.roofline import Roofline
from hetsim.errors import PluginError
from hetsim.graph.work import graph_work
from hetsim.hardware.catalog import load_device
from hetsim.hardware.kin import Likely
from kernel_graphs import chain

DEVICE = replace(
    load_device("nvidia-t4"), kernels={"float32": kernel_figures()}, execution_dtype={}
)
GRAPH = chain("Conv", "Relu")
WORKS = graph_work(GRAPH)
KERNEL = Kernel(WORKS)
LIKELY = Likely(0.1, 0.2, 0.2, 0.0, False, ("anet",))


def test_it_is_asked_and_answers_as_it_does_itself() -> None:
    alone = watched(Roofline(), "toy")
    assert not isinstance(alone, WholeModelCost)
    assert alone.estimate(DEVICE, KERNEL) == Roofline().estimate(DEVICE, KERNEL)
    whole = watched(Fitted(), "toy")
    assert isinstance(whole, WholeModelCost)
    own = Fitted()
    assert whole.figures(DEVICE, GRAPH, WORKS) == own.figures(DEVICE, GRAPH, WORKS)
    assert whole.likely(GRAPH, kernel_figures(), 1) is None
    assert whole.likely(GRAPH, None) is None
    of_these = own.of_works(WORKS, LIKELY).estimate(DEVICE, KERNEL)
    assert whole.of_works(WORKS, LIKELY).estimate(DEVICE, KERNEL) == of_these
    assert of_these != own.of_works(WORKS).estimate(DEVICE, KERNEL)


def with_hook(base: type, name: str, hook: Callable[..., Any]) -> CostModel:
    return watched(type("Toy", (base,), {name: lambda self, *asked: hook(*asked)})(), "toy")


def says(hook: Callable[[], Any]) -> str:
    with pytest.raises(PluginError) as caught:
        hook()
    return str(caught.value)


class Plain(Roofline):
    """One that looks at the whole, and finds nothing."""

    def of_works(self, works: Any, likely: Any = None) -> Any:
        return self

    def figures(self, device: Any, graph: Any, works: Any) -> Any:
        return None

    def likely(self, graph: Any, figures: Any, batch: int = 1) -> Any:
        return None


HOOKS: dict[str, Callable[[Any], Any]] = {
    "of_works": lambda toy: toy.of_works(WORKS, None),
    "figures": lambda toy: toy.figures(DEVICE, GRAPH, WORKS),
    "likely": lambda toy: toy.likely(GRAPH, None, 1),
    "estimate": lambda toy: toy.estimate(DEVICE, KERNEL),
}
WANTED = {
    "of_works": "a cost model", "figures": "None or KernelFigures", "likely": "None or a Likely",
    "estimate": "an Estimate",
}  # fmt: skip


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_named_with_what_it_gave_or_raised(name: str) -> None:
    for odd in (3, "x", object()):
        toy = with_hook(Plain, name, lambda *asked, odd=odd: odd)
        said = says(lambda toy=toy: HOOKS[name](toy))  # type: ignore[misc]
        assert f"'{name}'" in said
        assert WANTED[name] in said

    def fails(*asked: Any) -> Any:
        raise KeyError("inside")

    said = says(lambda: HOOKS[name](with_hook(Plain, name, fails)))
    assert f"'{name}' of 'toy'" in said
    assert "raised KeyError: 'inside'" in said
