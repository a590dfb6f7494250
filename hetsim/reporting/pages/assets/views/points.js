// The points of a grid by any two of their figures, with their Pareto front.
"use strict";
(() => {
  const { element, island } = hetsim;
  const SYMBOLS = ["circle", "square", "diamond", "cross", "x", "triangle-up", "star"];
  const ROWS_MOST = 200;
  const UNITS = [["_per_s", "/s"], ["_s", "s"], ["_j", "J"], ["_bytes", "B"], ["", ""]];
  const unit = (name) => UNITS.find(([end]) => name.endsWith(end))[1];
  const named = (name) => {
    const words = name.slice(0, name.length - UNITS.find(([end]) => name.endsWith(end))[0].length).replaceAll("_", " ");
    return `${words[0].toUpperCase()}${words.slice(1)}${unit(name) ? ` (${unit(name).replace(/^\//, "1/")})` : ""}`;
  };
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const short = (value) => (typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value ?? "none"));

  function table(title, names, rows) {
    const line = (kind, cells) => element("tr", {}, ...cells.map((text) => element(kind, { text })));
    return element("details", { class: "tables", open: true }, element("summary", { text: title }),
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title }, element("table", {},
        element("thead", {}, line("th", names)), element("tbody", {}, ...rows.map((row) => line("td", row))))));
  }

  hetsim.views.points = async (box) => {
    const { columns, axes, numbers, larger, first, colours } = island.pictures.points;
    if (!numbers.length) return;
    const all = Object.values(columns)[0].map((_, k) => k);
    let [x, y] = first, by = axes[0], scale = "linear";
    const only = {};
    const kept = () => all.filter((k) => columns[x][k] !== null && columns[y][k] !== null
      && Object.entries(only).every(([axis, value]) => short(columns[axis][k]) === value));
    const front = (rows) => {
      const value = (name, k) => (larger.includes(name) ? -1 : 1) * columns[name][k];
      const order = [...rows].sort((a, b) => value(x, a) - value(x, b) || value(y, a) - value(y, b));
      let best = -1;
      return order.filter((k) => {
        const better = best < 0 || value(y, k) < value(y, best);
        const equal = best >= 0 && columns[x][k] === columns[x][best] && columns[y][k] === columns[y][best];
        if (better) best = k;
        return better || equal;
      });
    };
    const axis = (name) => ({ type: scale, title: { text: named(name) }, rangemode: "tozero", tickformat: "~s" });
    const make = () => {
      const rows = kept(), best = front(rows);
      const groups = by ? [...new Set(columns[by].map(short))] : ["points"];
      const of = (name, some) => some.map((k) => columns[name][k]);
      const data = groups.map((group, place) => {
        const mine = by ? rows.filter((k) => short(columns[by][k]) === group) : rows;
        return { type: "scatter", mode: "markers", name: escaped(group), x: of(x, mine), y: of(y, mine),
          marker: { size: 10, color: colours[place % colours.length], symbol: SYMBOLS[place % SYMBOLS.length], opacity: 0.85 },
          customdata: mine.map((k) => axes.map((name) => escaped(`${name} ${short(columns[name][k])}`)).join("<br>")),
          hovertemplate: "%{customdata}<br>%{x}, %{y}<extra></extra>" };
      }).filter((trace) => trace.x.length);
      data.push({ type: "scatter", mode: "lines", name: "Pareto front", x: of(x, best), y: of(y, best), hoverinfo: "skip",
        line: { color: "--ink", width: 2, dash: "dot" } });
      return { data, height: 440, alt: `Points of the grid by ${x} and ${y}; the table has the front`,
        layout: { showlegend: true, margin: { t: 50 }, xaxis: axis(x), yaxis: axis(y) } };
    };
    const tools = element("div", { class: "tools" }), picture = element("div"), tables = element("div");
    box.append(tools, picture, tables);
    const chart = await hetsim.plot(picture, make);
    const tabled = () => {
      const names = [...new Set([...axes, x, y])], best = front(kept());
      tables.replaceChildren(table(`Pareto front of ${x} and ${y}`, names,
        best.slice(0, ROWS_MOST).map((k) => names.map((name) => (numbers.includes(name)
          ? hetsim.figure(columns[name][k], unit(name)) : short(columns[name][k]))))));
    };
    const again = (change) => { change(); tabled(); chart.redraw(); };
    const pick = (what, names, chosen, set) => hetsim.choice(what, names, (place) => again(() => set(place)), chosen);
    tools.append(
      pick("Horizontal", numbers, numbers.indexOf(x), (place) => { x = numbers[place]; }),
      pick("Vertical", numbers, numbers.indexOf(y), (place) => { y = numbers[place]; }),
      ...(axes.length ? [pick("Colour by", axes, 0, (place) => { by = axes[place]; })] : []),
      ...axes.map((axis) => {
        const values = [...new Set(columns[axis].map(short))];
        return pick(axis, ["all", ...values], 0, (place) => {
          if (place) only[axis] = values[place - 1]; else delete only[axis];
        });
      }),
      pick("Scale", ["linear", "log"], 0, (place) => { scale = ["linear", "log"][place]; }));
    if (!island.record.front_of.length) tabled();
  };
})();
