"""A graph of 10,000 nodes in a report: seconds to make, bytes, and frames a second in a browser.

    python benchmarks/report_graph.py [NODES]

Prints a JSON line for the page, and one for each scale at which it is panned and zoomed for three
seconds, at 1280 x 900 in headless Chromium, which draws by software.

On two cores that others used as well (load 7), 10,000 nodes in 10,000 subgraphs on four devices,
three plans: 0.6 CPU s, 0.18 MB of a page of 2.4 MB, drawn after 2.0 s, laid out in 0.1 to 0.3 s; 53
to 60 frames a second from the whole graph in view to full size, 95 % of them within 27 ms.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

import hetsim
from hetsim.reporting.pages.island import Island, Verdict
from hetsim.reporting.pages.islands.graph import graph_section
from hetsim.reporting.pages.page import write_page
from hetsim.reporting.pages.subgraphs import graph_picture
from reports import chromium

DEVICES = ("cpu", "gpu", "npu", "dsp")
BLOCK = 20
SCALES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.7, 1.0)
SECONDS = 3.0

MOVED = """([scale, ms]) => new Promise((done) => {
  const canvas = hetsim.graphs[0].canvas;
  canvas.fit();
  if (scale > 0) {
    canvas.scale = scale;
    canvas.left = canvas.layout.width / 3;
    canvas.top = canvas.layout.height / 3;
  }
  const began = performance.now();
  const gaps = [];
  let last = began;
  const turn = () => {
    const now = performance.now();
    gaps.push(now - last);
    last = now;
    const n = gaps.length;
    if (n % 2) canvas.pan(n % 40 < 20 ? 9 : -9, n % 20 < 10 ? 5 : -5);
    else canvas.zoom(n % 40 < 20 ? 1.02 : 1 / 1.02, 400, 300);
    if (now - began < ms) requestAnimationFrame(turn);
    else {
      gaps.sort((a, b) => a - b);
      done([(1000 * gaps.length) / (now - began), gaps[Math.floor(0.95 * gaps.length)]]);
    }
  };
  requestAnimationFrame(turn);
})"""


def transformer(count: int) -> hetsim.Problem:
    """Blocks of twenty nodes with residuals, as an exporter names them; refused here and there."""
    ops = ("MatMul", "Add", "LayerNormalization", "Softmax", "Reshape", "Transpose", "Gelu", "Mul",
           "Div", "Concat", "Split", "Cast")  # fmt: skip
    rng = np.random.default_rng(2)
    edges: list[tuple[int, int, int]] = []
    for node in range(count):
        block, place = divmod(node, BLOCK)
        first = block * BLOCK
        if place == 0:
            edges += [(first - 1, node, 3 * 2**20)] * (block > 0)
        elif place < 4:
            edges.append((first, node, 2**10 * place))
        elif place < 12:
            edges.append((first + 1 + (place - 1) % 3 if place < 7 else node - 3, node, 2**11))
        elif place == 12:
            edges += [(node - back, node, 16) for back in (1, 2, 3)]
        else:
            edges.append((node - 1, node, 2**12 * place))
        if place == BLOCK - 1:
            edges.append((first, node, 3 * 2**20))
    times = rng.lognormal(-9, 1.5, (BLOCK, len(DEVICES)))
    seconds = np.array(
        [times[node % BLOCK] * (1 + node // BLOCK % 7 / 10) for node in range(count)]
    )
    seconds[[node for node in range(count) if node % BLOCK in (3, 9)], 2] = np.inf
    problem = hetsim.Problem.from_arrays(
        seconds, edges=edges, devices=DEVICES, latency_s=1e-5, bytes_per_s=1e10, host=0
    )
    kinds = tuple(ops[node % BLOCK * 7 % len(ops)] for node in range(count))
    names = tuple(
        f"/encoder/layer.{node // BLOCK}/attention/self/{kind}_{node % BLOCK}"
        for node, kind in enumerate(kinds)
    )
    return replace(
        problem, node_names=names, op_types=kinds, origins=tuple((name,) for name in names)
    )


def main(count: int) -> None:
    """Print the figures of a graph of `count` nodes."""
    from playwright.sync_api import sync_playwright

    problem = transformer(count)
    plans = [hetsim.plan(problem, name) for name in ("heft", "hetero", "single:cpu")]
    began = time.process_time()
    pictures = {"graph": graph_picture(plans)}
    island = Island(
        "run",
        "A graph",
        ("hetsim",),
        {"problem": {"devices": list(DEVICES)}},
        Verdict("It is drawn."),
        sections=graph_section(pictures),
        pictures=pictures,
    )
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        path = Path(folder) / "report.html"
        write_page(island, path)
        cpu_s = time.process_time() - began
        browser = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(path.as_uri())
        page.wait_for_function("() => hetsim.settled()")
        laid_out = page.evaluate(
            "() => { const began = performance.now(); hetsim.graphs[0].arrange();"
            " return performance.now() - began; }"
        )
        print(
            json.dumps(
                {
                    "nodes": count,
                    "boxes": page.evaluate("hetsim.graphs[0].canvas.units.node.length"),
                    "make_cpu_s": round(cpu_s, 3),
                    "graph_bytes": len(json.dumps(pictures)),
                    "page_bytes": path.stat().st_size,
                    "drawn_ms": round(page.evaluate("performance.now()")),
                    "laid_out_ms": round(laid_out),
                }
            )
        )
        for scale in SCALES:
            rate, slow_ms = page.evaluate(MOVED, [scale, 1000 * SECONDS])
            line = {"scale": scale, "frames_per_s": round(rate, 1), "p95_ms": round(slow_ms)}
            print(json.dumps(line))
        browser.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
