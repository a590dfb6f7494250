// Strategies side by side: each cost with its interval, and the bound that no plan is left of.
"use strict";
hetsim.view({
  id: "strategies",
  title: "Strategies",
  order: 10,
  shows: (island) => island.kind === "compare" && island.record.rows.some((row) => row.cost_s !== null),
  draw(box, { record }) {
    const { label, seconds, colour } = hetsim;
    const rows = record.rows.filter((row) => row.cost_s !== null).slice().reverse();
    const bound = record.lower_bound_s;
    const ends = rows.flatMap((row) => (row.sure ? [row.sure.cost_s.p10, row.sure.cost_s.p90] : [])
      .concat(row.cost_s)).concat(bound || []).filter((value) => value > 0);
    const wide = Math.max(...ends) / Math.min(...ends) > 25;
    const [step, unit] = hetsim.units.seconds(Math.max(...ends));
    const narrow = box.clientWidth < 520;
    const names = rows.map((row) => label(row.strategy, narrow ? 16 : 40));
    const places = rows.map((_, index) => index);
    const make = () => {
      const single = (row) => row.strategy.startsWith("single:");
      const best = rows.length - 1;
      const shapes = [];
      const notes = [];
      if (bound) {
        shapes.push({ type: "rect", xref: "x", yref: "paper", x0: wide ? Math.min(...ends) / step / 2 : 0,
          x1: bound / step, y0: 0, y1: 1, fillcolor: colour("soft"), opacity: 0.12, line: { width: 0 }, layer: "below" });
        shapes.push({ type: "line", xref: "x", yref: "paper", x0: bound / step, x1: bound / step, y0: 0, y1: 1,
          line: { color: colour("bad"), width: 2, dash: "dash" } });
        notes.push({ x: wide ? Math.log10(bound / step) : bound / step, y: 1, yref: "paper", yanchor: "bottom", xanchor: "left",
          text: `lower bound ${seconds(bound)}`, showarrow: false, font: { color: colour("bad"), size: 13 } });
      }
      const trace = {
        type: "scatter", mode: narrow ? "markers" : "markers+text", y: places, x: rows.map((row) => row.cost_s / step),
        text: rows.map((row) => seconds(row.cost_s)), textposition: "top right",
        textfont: { color: colour("ink"), size: 13 }, cliponaxis: false,
        marker: { size: 13, symbol: rows.map((row) => (single(row) ? "square" : "circle")),
          color: rows.map((row, index) => (index === best ? colour("strong") : single(row) ? "#E69F00" : "#009E73")),
          line: { color: colour("ink"), width: 1 } },
        error_x: { type: "data", symmetric: false, thickness: 2.5, width: 7, color: colour("soft"),
          array: rows.map((row) => (row.sure ? (row.sure.cost_s.p90 - row.cost_s) / step : 0)),
          arrayminus: rows.map((row) => (row.sure ? (row.cost_s - row.sure.cost_s.p10) / step : 0)) },
        customdata: rows.map((row) => [label(row.strategy), row.sure
          ? `80 % of samples: ${seconds(row.sure.cost_s.p10)} to ${seconds(row.sure.cost_s.p90)}` : "no interval"]),
        hovertemplate: "%{customdata[0]}<br>%{text}<br>%{customdata[1]}<extra></extra>",
      };
      return { traces: [trace], layout: {
        shapes, annotations: notes, margin: { t: 34 },
        xaxis: { type: wide ? "log" : "linear", rangemode: "tozero",
          title: { text: `${record.objective === "latency" ? "latency" : "time a request"}, ${unit}${wide ? " (logarithmic)" : ""}` } },
        yaxis: { tickvals: places, ticktext: names, range: [-0.6, rows.length - 0.25], zeroline: false, showgrid: true },
      } };
    };
    const told = rows.slice().reverse().map((row) => `${row.strategy} ${seconds(row.cost_s)}`).join(", ");
    const key = hetsim.element("p", { class: "caption" },
      "Circles are plans of strategies, squares devices alone; the best stands on top. Bars: 80 % of samples."
      + (bound ? " In the shaded part no plan can be by the figures as stated; samples move the bound, too." : ""));
    const picture = hetsim.element("div");
    box.append(picture, key);
    return hetsim.plot(picture, make, { alt: `${record.objective} by strategy, best first: ${told}`,
      height: Math.max(220, 110 + 46 * rows.length) });
  },
});
