// The points of a grid by any two of their figures, with what no other beats in both.
"use strict";
(() => {
  const UNITS = [["_per_s", "requests a second"], ["_s", "s"], ["_j", "J"], ["_bytes", "bytes"]];
  const unitOf = (name) => (UNITS.find(([end]) => name.endsWith(end)) || ["", ""])[1];
  const figure = (name, value) => {
    if (value === null || value === undefined) return "-";
    if (name.endsWith("_per_s")) return `${Number(value.toPrecision(4))}/s`;
    if (name.endsWith("_s")) return hetsim.seconds(value);
    if (name.endsWith("_j")) return `${Number(value.toPrecision(3))} J`;
    if (name.endsWith("_bytes")) return hetsim.bytes(value);
    if (name === "on_time" || name === "utilization") return hetsim.percent(value);
    return typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value);
  };

  hetsim.view({
    id: "points",
    title: "Points",
    order: 5,
    shows: (island) => Boolean(island.pictures.rows && island.pictures.rows.numbers.length),
    draw(box, island) {
      const { element, label, colour, COLOURS } = hetsim;
      const { columns, axes, numbers, larger } = island.pictures.rows;
      const count = Object.values(columns)[0].length;
      const wished = island.record.front_of.map((text) => text.split(" ")[0]);
      const usual = ["p99_s", "latency_s", "energy_per_1000_j", "energy_j", "request_s"].filter((name) => numbers.includes(name));
      const picked = [...new Set([...wished, ...usual, ...numbers])];
      let [x, y] = [picked[0], picked[1] || picked[0]];
      let by = axes[0] || null;
      const only = {};
      const option = (name, chosen) => element("option", { value: name, selected: name === chosen, text: hetsim.told(name, 60) });
      const chooser = (name, list, chosen, moved) => {
        const made = element("select", {}, ...list.map((one) => option(one, chosen)));
        made.addEventListener("change", () => moved(made.value));
        return element("label", {}, `${name}: `, made);
      };
      const tools = element("div", { class: "tools" });
      const picture = element("div", { class: "picture" });
      const tables = element("div");
      box.append(tools, picture, tables);
      let redraw = () => {};
      let scale = "linear";
      const better = (name) => (larger.includes(name) ? -1 : 1);
      const kept = () => {
        const found = [];
        for (let k = 0; k < count; k++) {
          if (columns[x][k] === null || columns[y][k] === null) continue;
          if (Object.entries(only).some(([axis, value]) => value !== null && String(columns[axis][k] ?? "none") !== value)) continue;
          found.push(k);
        }
        return found;
      };
      const front = (rows) => {
        const [sx, sy] = [better(x), better(y)];
        const order = [...rows].sort((a, b) => sx * (columns[x][a] - columns[x][b]) || sy * (columns[y][a] - columns[y][b]));
        const found = [];
        let least = Infinity;
        let at = null;
        for (const k of order) {
          const mine = sy * columns[y][k];
          const equal = at !== null && columns[x][k] === columns[x][at] && columns[y][k] === columns[y][at];
          if (mine < least || equal) {
            found.push(k);
            least = Math.min(least, mine);
            at = k;
          }
        }
        return found;
      };
      const told = () => {
        const rows = kept();
        const best = front(rows);
        const names = [...axes, x, ...(y === x ? [] : [y])];
        const line = (k) => names.map((name) => (numbers.includes(name) ? figure(name, columns[name][k]) : String(columns[name][k] ?? "-")));
        const heads = names.map((name) => ({ name, figures: numbers.includes(name) }));
        tables.replaceChildren(
          hetsim.table({ title: `What no other beats in ${x} and ${y}`, columns: heads, rows: best.map(line), open: true }),
          hetsim.table({ title: "All that is drawn", columns: heads, rows: rows.map(line) }));
      };
      const again = () => { told(); redraw(); };
      tools.append(
        chooser("Across", numbers, x, (value) => { x = value; again(); }),
        chooser("Up", numbers, y, (value) => { y = value; again(); }),
        ...(axes.length ? [chooser("Colour by", axes, by, (value) => { by = value; again(); })] : []),
        ...axes.map((axis) => {
          const values = [...new Set(columns[axis].map((value) => String(value ?? "none")))];
          return chooser(axis, ["all", ...values], "all", (value) => { only[axis] = value === "all" ? null : value; again(); });
        }));
      const logarithmic = hetsim.button("Logarithmic", () => {
        scale = scale === "log" ? "linear" : "log";
        logarithmic.setAttribute("aria-pressed", String(scale === "log"));
        redraw();
      }, { "aria-pressed": "false" });
      tools.append(logarithmic);
      told();
      const make = () => {
        const rows = kept();
        const best = front(rows);
        const groups = by ? [...new Set(columns[by].map((value) => String(value ?? "none")))] : [""];
        const symbols = ["circle", "square", "diamond", "cross", "x", "triangle-up", "star"];
        const traces = groups.map((name, at) => {
          const mine = rows.filter((k) => !by || String(columns[by][k] ?? "none") === name);
          return { type: "scatter", mode: "markers", name: label(name || "points", 40), x: mine.map((k) => columns[x][k]), y: mine.map((k) => columns[y][k]),
            marker: { size: 10, color: COLOURS[at % COLOURS.length], symbol: symbols[at % symbols.length], opacity: 0.85 },
            customdata: mine.map((k) => [axes.map((axis) => label(`${axis} ${columns[axis][k] ?? "none"}`)).join("<br>"), figure(x, columns[x][k]), figure(y, columns[y][k])]),
            hovertemplate: "%{customdata[0]}<br>%{customdata[1]}, %{customdata[2]}<extra></extra>" };
        }).filter((trace) => trace.x.length);
        traces.push({ type: "scatter", mode: "lines", name: "front", x: best.map((k) => columns[x][k]), y: best.map((k) => columns[y][k]),
          line: { color: colour("ink"), width: 2, dash: "dot" }, hoverinfo: "skip" });
        return { traces, layout: { showlegend: true, margin: { t: 50 },
          xaxis: { type: scale, title: { text: `${x}${unitOf(x) ? `, ${unitOf(x)}` : ""}` }, rangemode: "tozero" },
          yaxis: { type: scale, title: { text: `${y}${unitOf(y) ? `, ${unitOf(y)}` : ""}` }, rangemode: "tozero" } } };
      };
      return hetsim.plot(picture, make, { alt: "Points of the grid by two figures; the tables have them", height: 440,
        then: (inner, library, draw) => { redraw = draw; } });
    },
  });
})();
