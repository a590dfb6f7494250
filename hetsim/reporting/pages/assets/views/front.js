// Platforms that were tried, by cost and latency.
"use strict";
(() => {
  const counted = (counts) => Object.entries(counts).map(([name, n]) => `${n} ${name}`).join(" + ") || "nothing";

  // What no other beats in both.
  const front = (points) => {
    const found = [];
    let least = Infinity;
    for (const one of [...points].sort((a, b) => a.x - b.x || a.y - b.y)) {
      if (one.y < least) {
        found.push(one);
        least = one.y;
      }
    }
    return found;
  };

  hetsim.view({
    id: "front",
    title: "Cost and latency",
    order: 5,
    shows: (island) => Boolean(island.pictures.vectors && island.pictures.vectors.tried.length),
    draw(box, island) {
      const { label, seconds, colour, element } = hetsim;
      const { tried } = island.pictures.vectors;
      const { unit } = island.record;
      const columns = [[`cost, ${unit}`, (one) => one.cost], ["devices", (one) => one.devices]];
      let across = 0;
      const choice = element("select", { "aria-label": "Across" },
        ...columns.map(([name], k) => element("option", { value: String(k), text: name })));
      const tools = element("div", { class: "tools" }, element("label", {}, "Across: ", choice));
      const picture = element("div", { class: "picture" });
      box.append(tools, picture);
      const make = () => {
        const [name, value] = columns[across];
        const drawn = tried.filter((one) => one.latency_s !== null);
        const sorts = [["meets", "circle", "#009E73"], ["undecided", "circle-open", "#E69F00"], ["misses", "x", "#D55E00"]];
        const traces = sorts.map(([sort, symbol, hue]) => {
          const mine = drawn.filter((one) => one.answer === sort);
          return { type: "scatter", mode: "markers", name: sort, x: mine.map(value), y: mine.map((one) => one.latency_s * 1e3),
            marker: { symbol, size: mine.map((one) => (one.chosen ? 18 : 11)), color: hue, line: { width: 2, color: hue } },
            customdata: mine.map((one) => [label(counted(one.counts)), seconds(one.latency_s), `${Number(one.cost.toPrecision(4))} ${unit}`]),
            hovertemplate: `%{customdata[0]}<br>%{customdata[2]}, %{customdata[1]}<br>${sort}<extra></extra>` };
        });
        const best = front(drawn.filter((one) => one.answer === "meets").map((one) => ({ x: value(one), y: one.latency_s * 1e3 })));
        traces.unshift({ type: "scatter", mode: "lines", name: "front", x: best.map((one) => one.x), y: best.map((one) => one.y),
          line: { color: "#009E73", width: 2, shape: "hv" }, hoverinfo: "skip" });
        const heights = drawn.flatMap((one) => [one.latency_s * 1e3, one.limit_s * 1e3]);
        const shapes = [];
        const notes = [];
        const limits = [...new Set(drawn.map((one) => one.limit_s))];
        limits.forEach((limit) => {
          shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: limit * 1e3, y1: limit * 1e3, line: { color: colour("bad"), width: 2, dash: "dash" } });
          notes.push({ xref: "paper", x: 1, xanchor: "right", y: Math.log10(limit * 1e3), yanchor: "bottom", showarrow: false,
            text: `asked: ${seconds(limit)}`, font: { color: colour("bad"), size: 13 } });
        });
        const chosen = drawn.find((one) => one.chosen);
        if (chosen && across === 0) {
          shapes.push({ type: "rect", yref: "paper", y0: 0, y1: 1, x0: 0, x1: chosen.cost, fillcolor: colour("soft"), opacity: 0.1, line: { width: 0 }, layer: "below" });
          notes.push({ yref: "paper", y: 1, yanchor: "bottom", x: chosen.cost, xanchor: "right", showarrow: false,
            text: "less: proved or tried", font: { color: colour("soft"), size: 13 } });
        }
        return { traces, layout: { shapes, annotations: notes, showlegend: true, margin: { t: 46 }, legend: { y: 1.1 },
          xaxis: { title: { text: name }, rangemode: "tozero" },
          yaxis: { type: "log", ...hetsim.ticks(Math.min(...heights), Math.max(...heights)), title: { text: "latency nearest to its limit, ms (logarithmic)" } } } };
      };
      return hetsim.plot(picture, make, { alt: "Platforms by cost and latency; the table has them", height: 420,
        then: (inner, library, redraw) => {
          choice.addEventListener("change", () => { across = Number(choice.value); redraw(); });
        } });
    },
  });
})();
