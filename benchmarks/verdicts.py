"""What ``compare`` says of models on platforms, beside its Monte Carlo samples, as a table.

    python benchmarks/verdicts.py
    python benchmarks/verdicts.py --model detector.onnx --shape x=1,3,640,640 --platform iq-9075

Exit code 1 where an answer and the share of the samples contradict each other. The 48 pairs that
are the default take about half a minute of CPU; ``tests/analysis/test_verdict.py`` checks the same.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product

import hetsim
from hetsim.analysis.verdict import LIKELY

MODELS = ("mobilenet_v2", "bert_small", "shufflenet", "squeezenet", "resnet50", "vit_base")
PLATFORMS = ("laptop", "iq-9075", "rock-5b", "snapdragon-phone", "jetson-agx-orin",
             "jetson-orin-nx", "pi-5-hailo-8l", "desktop")  # fmt: skip


def shape_of(text: str) -> tuple[str, list[int]]:
    """Read ``x=1,3,640,640``."""
    name, _, sizes = text.partition("=")
    return name, [int(size) for size in sizes.split(",")]


def main() -> None:
    """Print a row a pair, and how many answers there are of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append")
    parser.add_argument("--shape", action="append", type=shape_of, default=[])
    parser.add_argument("--platform", action="append")
    asked = parser.parse_args()
    counts: dict[str, int] = {}
    wrong = 0
    print("| model | platform | answer | take | split | speed-up | faster in, % | loss, mean, % |")
    print("|---|---|---|---|---|---|---|---|")
    models = {
        name: hetsim.load_model(name, shapes=dict(asked.shape))
        for name in asked.model or [f"zoo:{name}" for name in MODELS]
    }
    for (name, model), platform in product(models.items(), asked.platform or PLATFORMS):
        found = hetsim.compare(hetsim.Problem.of(model, hetsim.load_platform(platform)))
        told = found.verdict
        counts[told.answer] = counts.get(told.answer, 0) + 1
        take = "" if told.take is None else told.take.strategy
        row = [name, platform, told.answer, take, "", "", "", ""]
        if told.tried is not None and told.chance is not None:
            (sure,) = [one.sure for one in found.rows if one.strategy == told.tried.strategy]
            loss = 0.0 if sure is None else sure.loss_mean or 0.0
            row[4:] = [told.tried.strategy, f"{told.gain:.2f}", f"{100 * told.chance:.3g}",
                       f"{100 * loss:.3g}"]  # fmt: skip
            wrong += (told.answer == "pays") > (told.chance >= LIKELY)
        print(f"| {' | '.join(row)} |", flush=True)
    print(f"\n{counts}; {wrong} contradict their samples")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
