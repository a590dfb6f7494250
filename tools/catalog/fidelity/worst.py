"""Where predictions are worst, and why, as far as that is known."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from statistics import median

from catalog.fidelity.points import FidelityPoint

LEAST = 3
"""Points of a network or device that make it worth a line."""
MOST = 12
OF_A_KIND = 3
"""Lines of one runtime, so that others are seen."""
FEW = 4
"""Networks of a device below which its figures are hardly its own."""

_WHY: Sequence[tuple[str, str, str]] = (
    ("googlenet", "aihub-npu", "branches run at once there, and are priced one after the other"),
    ("inception", "aihub-npu", "branches run at once there, and are priced one after the other"),
    ("shufflenet", "", "shuffles of channels cost one runtime much and another nothing"),
    ("sequencer2d", "", "the one recurrent network: left out, nothing tells what steps take"),
    ("mobilebert", "", "many small products: what launches cost among them is all"),
    ("vision_transformer", "ncnn", "the kin's one network of large matrix products: left out, "
     "their rate is a belief"),
    ("vgg", "", "nothing else has so much work a kernel: fast algorithms for it differ"),
    ("alexnet", "", "weights of fully connected layers, of which no other network has as many"),
    ("efficientnetv2", "ncnn-gpu", "drivers of graphics differ in what large windows cost them"),
    ("segformer", "", "its one measured source falls back inside, and does not say where"),
    ("", "hailort", "rates of a pipeline: its slowest stage and the loading of contexts, which "
     "the compiler decides, are not in the formula"),
    ("", "edgetpu", "weights on the chip decide, and few networks are measured"),
    ("", "rknn", "five networks a device: most of the figures are beliefs"),
    ("", "sophon", "one or two networks: most of the figures are beliefs"),
    ("", "mlperf", "few networks, each by its maker's own compiler"),
    ("", "ncnn-cpu-int8", "five networks a device: most of the figures are beliefs"),
    ("", "ncnn-gpu", "Vulkan drivers: runs of one card differ by more than cards do"),
    ("", "openvino-cpu", "few networks, on servers with many cores, as rates whose batch and "
     "streams are not told"),
)  # fmt: skip


def worst_section(points: Sequence[FidelityPoint]) -> str:
    """Return the networks and devices that are missed by most when they are left out."""
    lines = [
        "## What is worst\n",
        f"By the median over points of what was left out of its kin, of {LEAST} points or more; at "
        f"most {OF_A_KIND} lines of a runtime. *Bias*: how many times as long as measured they are "
        "predicted to take.\n",
        "| what | points | median error | bias | why |",
        "|---|---|---|---|---|",
    ]
    lines += _lines(points, lambda p: (p.network, _runtime(p.kin)), "{0} on {1}")
    lines += _lines(points, lambda p: (p.device, p.precision), "{0} in {1}")
    return "\n".join(lines) + "\n"


def _runtime(kin: str) -> str:
    return kin.rpartition("-")[0]


def _lines(
    points: Sequence[FidelityPoint],
    key: Callable[[FidelityPoint], tuple[str, str]],
    words: str,
) -> list[str]:
    groups: defaultdict[tuple[str, str], list[FidelityPoint]] = defaultdict(list)
    for point in points:
        if point.unseen is not None:
            groups[key(point)].append(point)
    told = []
    for names, found in groups.items():
        if len(found) >= LEAST:
            error = median(p.unseen.error(p.measured_s) for p in found if p.unseen)
            bias = median(p.unseen.seconds / p.measured_s for p in found if p.unseen)
            told.append((error, names, bias, found))
    told.sort(key=lambda each: (-each[0], each[1]))
    lines: Counter[str] = Counter()
    shown = []
    for each in told:
        kin = _runtime(each[3][0].kin)
        lines[kin] += 1
        if lines[kin] <= OF_A_KIND:
            shown.append(each)
    return [
        f"| {words.format(*names)} | {len(found)} | {100 * error:.0f} % | {bias:.2f} | "
        f"{_why(found)} |"
        for error, names, bias, found in shown[:MOST]
    ]


def _why(found: Sequence[FidelityPoint]) -> str:
    networks = {point.network for point in found}
    for network, kin, why in _WHY:
        of_it = not network or (len(networks) == 1 and network in found[0].network)
        if of_it and found[0].kin.startswith(kin):
            return why
    devices = {(point.device, point.precision) for point in found}
    few = len(devices) == 1 and len(networks) < FEW
    return f"networks that were measured on it: {len(networks)}" if few else "not known"
