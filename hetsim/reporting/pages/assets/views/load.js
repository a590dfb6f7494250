// Latency over rate with its band, the limit and the bottleneck; a slider stops at each rate.
"use strict";
(() => {
  const { element } = hetsim;
  const rateText = (value) => `${Number(value.toPrecision(4))}/s`;

  // What one rate's figures say, as rows of name and value.
  const figuresOf = ({ curve }, k) => {
    const several = curve.streams.length > 1;
    const rows = curve.streams.flatMap((one) => {
      const of = several ? ` of ${one.name}` : "";
      const latency = one.latency_s[k] === null ? "no percentile: it grows without end"
        : one.enough[k] && one.high_s[k] !== null
          ? `${hetsim.seconds(one.latency_s[k])} (${hetsim.seconds(one.low_s[k])} to ${hetsim.seconds(one.high_s[k])})`
          : `${hetsim.seconds(one.latency_s[k])} (too few for an interval)`;
      const verdict = one.verdict[k].length ? [[`objectives${of}`, one.verdict[k].join(", ")]] : [];
      return [[`p${one.percentile}${of}`, latency], ...verdict];
    });
    return [...rows, ["it is", curve.state[k]], ["busiest", `${curve.bottleneck[k]}, ${hetsim.percent(curve.used[k])}`]];
  };

  const table = (rows) =>
    element("table", { class: "figures" }, element("tbody", {}, ...rows.map(([name, value]) => element("tr", {},
      element("th", { scope: "row", text: hetsim.told(name) }), element("td", { class: "figure", text: hetsim.told(value) })))));

  const commandBox = () => {
    const code = element("code", { tabindex: 0 });
    let line = "";
    const made = element("div", { class: "command" }, code, hetsim.copyButton(() => line));
    made.say = (text) => {
      line = text || "";
      made.hidden = !text;
      hetsim.words(code, line);
    };
    return made;
  };

  hetsim.view({
    id: "load",
    title: "Latency over rate",
    order: 5,
    shows: (island) => (island.pictures.rates || []).some((row) => row.curve),
    draw(box, island) {
      const rows = island.pictures.rates.filter((row) => row.curve);
      let row = rows[0];
      let at = row.curve.start;
      let redraw = () => {};
      const say = element("p", { class: "said", "aria-live": "polite" });
      const figures = element("div", { class: "scroll" });
      const [command, leave] = [commandBox(), commandBox()];
      const picture = element("div", { class: "picture" });
      const range = element("input", { type: "range", min: 0, step: 1, id: "rate" });
      const shown = element("output", { for: "rate" });
      const answer = () => {
        const rate = rateText(row.curve.factor[at] * row.rate_per_s);
        range.max = row.curve.factor.length - 1;
        range.value = at;
        range.setAttribute("aria-valuetext", rate);
        shown.textContent = rate;
        say.textContent = hetsim.told(`At ${rate} it is ${row.curve.state[at]}.`);
        figures.replaceChildren(table(figuresOf(row, at)));
        command.say(row.curve.command[at]);
        leave.say(row.leave);
        redraw();
      };
      range.addEventListener("input", () => { at = Number(range.value); answer(); });
      const choice = element("select", { id: "deployment" }, ...rows.map((one, k) =>
        element("option", { value: String(k), text: hetsim.told(one.name, 80) })));
      choice.addEventListener("change", () => { row = rows[Number(choice.value)]; at = row.curve.start; answer(); });
      const field = (id, name, ...inside) =>
        element("div", { class: "slider" }, element("label", { for: id, text: name }), ...inside);
      const controls = element("div", { class: "sliders" },
        ...(rows.length > 1 ? [field("deployment", "deployment", choice)] : []),
        field("rate", "rate", range, shown, element("span", { class: "unit", text: "requests a second" })));
      const left = element("p", { class: "caption", text: "This leaves the files that the first command reads:", hidden: !row.leave });
      box.append(element("div", { class: "asking" }, controls, element("div", { class: "answer" }, say, figures, command, left, leave)), picture);
      answer();

      const make = () => {
        const { seconds, colour, label } = hetsim;
        const traces = [];
        const shapes = [];
        const notes = [];
        const { curve } = row;
        const limits = row.limits_s;
        const every = curve.streams.flatMap((one) => one.latency_s.filter((value) => value !== null));
        const most = Math.max(...every, ...limits);
        const [step, unit] = hetsim.units.seconds(most);
        const x = curve.factor.map((factor) => factor * row.rate_per_s);
        curve.streams.forEach((one, number) => {
          const hue = hetsim.COLOURS[number % hetsim.COLOURS.length];
          const kept = x.map((_, k) => k).filter((k) => one.latency_s[k] !== null);
          const band = kept.filter((k) => one.enough[k] && one.high_s[k] !== null);
          traces.push({ type: "scatter", mode: "lines", hoverinfo: "skip", showlegend: false,
            x: [...band, ...band.slice().reverse()].map((k) => x[k]),
            y: [...band.map((k) => one.high_s[k] / step), ...band.slice().reverse().map((k) => one.low_s[k] / step)],
            fill: "toself", fillcolor: hue, opacity: 0.18, line: { width: 0 } });
          traces.push({ type: "scatter", mode: "lines+markers", name: label(`p${one.percentile} of ${one.name}`, 40),
            x: kept.map((k) => x[k]), y: kept.map((k) => one.latency_s[k] / step),
            line: { color: hue, width: 2 },
            marker: { size: kept.map((k) => (k === at ? 17 : 10)), line: { color: hue, width: 2 },
              symbol: kept.map((k) => (one.verdict[k].includes("misses") ? "x" : k === at ? "diamond" : "circle")),
              color: kept.map((k) => (one.verdict[k].includes("undecided") ? colour("paper") : hue)) },
            customdata: kept.map((k) => [seconds(one.latency_s[k]), one.verdict[k].join(", ") || "nothing asked",
              label(curve.bottleneck[k]), hetsim.percent(curve.used[k])]),
            hovertemplate: "%{x:.4g}/s: %{customdata[0]}<br>%{customdata[1]}<br>busiest: %{customdata[2]}, %{customdata[3]}<extra></extra>" });
        });
        limits.forEach((limit) => {
          shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, y0: limit / step, y1: limit / step,
            line: { color: colour("bad"), width: 2, dash: "dash" } });
          notes.push({ xref: "paper", x: 0, xanchor: "left", y: Math.log10(limit / step), yanchor: "bottom", showarrow: false,
            text: `asked: ${seconds(limit)}`, font: { color: colour("bad"), size: 13 } });
        });
        if (row.ceiling_per_s !== null) {
          shapes.push({ type: "line", yref: "paper", y0: 0, y1: 1, x0: row.ceiling_per_s, x1: row.ceiling_per_s,
            line: { color: colour("soft"), width: 2, dash: "dot" } });
          notes.push({ yref: "paper", y: 1, yanchor: "bottom", x: row.ceiling_per_s, xanchor: "right", showarrow: false,
            text: label(`ceiling: ${row.ceiling_binds}`, 50), font: { color: colour("soft"), size: 13 } });
        }
        return { traces, layout: { shapes, annotations: notes, margin: { t: 40 },
          showlegend: curve.streams.length > 1,
          xaxis: { title: { text: "requests a second" }, rangemode: "tozero" },
          yaxis: { type: "log", ...hetsim.ticks(Math.min(...every, ...limits) / step, most / step), title: { text: `latency, ${unit} (logarithmic)` } } } };
      };
      return hetsim.plot(picture, make, { alt: "Latency over the rate of requests; the table has its figures",
        height: 420, then: (inner, library, again) => { redraw = again; } });
    },
  });
})();
