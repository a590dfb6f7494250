// What all views stand on: the island, words for figures, tables, tabs, theme, print, plotly.
"use strict";
const hetsim = (() => {
  const views = [];
  const island = JSON.parse(document.getElementById("hetsim-data").textContent);

  // Words: as hetsim's own tables have them. A text of a model or file goes through `plain`.
  const ESCAPES = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };
  const escaped = (char) => {
    const code = char.codePointAt(0);
    if (ESCAPES[char]) return ESCAPES[char];
    if (code < 0x100) return "\\x" + code.toString(16).padStart(2, "0");
    if (code < 0x10000) return "\\u" + code.toString(16).padStart(4, "0");
    return "\\U" + code.toString(16).padStart(8, "0");
  };
  const plain = (text) => String(text).replace(/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, escaped);
  const cut = (text, most = 400) =>
    text.length <= most ? text
      : text.slice(0, Math.floor(most * 3 / 4)) + " ... " + text.slice(-Math.floor(most / 4));
  const told = (text, most = 400) => cut(plain(text), most);

  // toFixed takes the larger of two that are as near; Python takes the even one.
  function fixed(value, digits) {
    const twice = value * 2 ** (digits + 1);
    if (Number.isInteger(twice) && Math.abs(twice % 2) === 1) {
      const scaled = value * 10 ** digits, low = Math.floor(scaled);
      const even = low % 2 === 0 ? low : low + 1;
      return (value < 0 && even === 0 ? "-" : "") + (even / 10 ** digits).toFixed(digits);
    }
    return value.toFixed(digits);
  }
  const three = (value) => {
    const size = Math.abs(value);
    return fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
  };
  const stepped = (steps, last) => (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "-";
    for (const [step, unit] of steps) {
      if (Math.abs(value) >= step) return `${three(value / step)} ${unit}`;
    }
    return last(value);
  };
  const seconds = stepped([[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]],
    (value) => (value === 0 ? "0 s" : `${three(value / 1e-9)} ns`));
  const bytes = stepped([[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]],
    (value) => `${fixed(value, 0)} B`);
  const ratio = (value) => (value === null || value === undefined ? "-" : `${three(value)}x`);
  function percent(share, sign = false) {
    if (share === null || share === undefined) return "-";
    let value = 100 * share;
    if (Math.abs(value) < 0.05) value = 0;
    const text = fixed(value, Math.abs(value) >= 9.95 || value === 0 ? 0 : 1);
    return `${sign && value >= 0 ? "+" : ""}${text} %`;
  }

  // What was packed by pages/packing.py; anything else is given back as it is.
  async function inflated(packed) {
    const binary = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
    const stream = new Blob([binary]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }
  function summed(steps) {
    if (Array.isArray(steps[0])) return steps.map(summed);
    let sum = 0;
    return steps.map((step) => (sum += step));
  }
  const unpackings = new WeakMap();
  async function afresh(value) {
    const found = JSON.parse(await inflated(value.packed));
    for (const name of value.differences || []) found[name] = summed(found[name]);
    return found;
  }
  function unpacked(value) {
    if (!value || typeof value.packed !== "string") return Promise.resolve(value);
    if (!unpackings.has(value)) unpackings.set(value, afresh(value));
    return unpackings.get(value);
  }
  // So that nothing is left to wait for when the page is printed.
  async function unpackAll(value) {
    if (!value || typeof value !== "object") return;
    if (typeof value.packed === "string") await unpacked(value);
    else for (const inner of Object.values(value)) await unpackAll(inner);
  }

  // Elements: text goes in as text alone.
  function element(name, about = {}, ...inside) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(about)) {
      if (value === undefined || value === null || value === false) continue;
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (key === "text") made.textContent = value;
      else made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...inside);
    return made;
  }
  const say = (text) => { document.getElementById("live").textContent = text; };

  // A table of {columns: [name or {name, figures}], rows: [[text]]}, folded under its title.
  const ROWS_MOST = 1000;
  function table({ title, columns, rows, marked = [], open = false }) {
    const heads = columns.map((one) => (typeof one === "string" ? { name: one } : one));
    const figure = (index) => (heads[index] && heads[index].figures ? "figure" : null);
    const shown = rows.slice(0, ROWS_MOST);
    const count = rows.length > ROWS_MOST ? `${ROWS_MOST} of ${rows.length}` : String(rows.length);
    return element("details", { class: "tables", open },
      element("summary", {}, told(title) + " ", element("small", { text: count })),
      element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": told(title) },
        element("table", {},
          element("thead", {}, element("tr", {}, ...heads.map((head, index) =>
            element("th", { scope: "col", class: figure(index), text: told(head.name) || "\u00a0" })))),
          element("tbody", {}, ...shown.map((row, place) =>
            element("tr", { class: marked.includes(place) ? "marked" : null },
              ...row.map((cell, index) => element("td", { class: figure(index), text: told(cell) }))))))));
  }

  // Colours for eyes of every kind (Okabe and Ito 2008), and a pattern beside each.
  const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"];
  const PATTERNS = ["", "/", "\\", "x", "-", "|", "+", "."];
  const look = (index) => ({
    colour: COLOURS[index % COLOURS.length],
    pattern: PATTERNS[(index + 3 * Math.floor(index / COLOURS.length)) % PATTERNS.length],
  });
  const devices = () => {
    const problem = island.record && island.record.problem;
    return (problem && problem.devices) || [];
  };
  const deviceLook = (name) => {
    const index = devices().indexOf(name);
    return index < 0 ? { colour: "#8a94a0", pattern: "" } : look(index);
  };

  // A device's swatch as a canvas; the timeline fills its tasks with the same.
  function hatch(context, { colour, pattern }) {
    if (!pattern) return colour;
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const pen = tile.getContext("2d");
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 8, 8);
    pen.strokeStyle = "rgba(255,255,255,0.55)";
    pen.fillStyle = "rgba(255,255,255,0.6)";
    pen.lineWidth = 1.3;
    pen.beginPath();
    if (pattern === "/" || pattern === "x") { pen.moveTo(-2, 10); pen.lineTo(10, -2); pen.moveTo(-2, 2); pen.lineTo(2, -2); pen.moveTo(6, 10); pen.lineTo(10, 6); }
    if (pattern === "\\" || pattern === "x") { pen.moveTo(-2, -2); pen.lineTo(10, 10); pen.moveTo(6, -2); pen.lineTo(10, 2); pen.moveTo(-2, 6); pen.lineTo(2, 10); }
    if (pattern === "-" || pattern === "+") { pen.moveTo(0, 4); pen.lineTo(8, 4); }
    if (pattern === "|" || pattern === "+") { pen.moveTo(4, 0); pen.lineTo(4, 8); }
    pen.stroke();
    if (pattern === ".") { pen.beginPath(); pen.arc(4, 4, 1.6, 0, 7); pen.fill(); }
    return context.createPattern(tile, "repeat");
  }
  function swatch(shape) {
    const made = element("canvas", { width: 18, height: 12, "aria-hidden": "true" });
    const context = made.getContext("2d");
    context.fillStyle = hatch(context, shape);
    context.fillRect(0, 0, 18, 12);
    return made;
  }
  // The area under a line, as plotly fills it.
  const filled = ({ colour: shade, pattern }) => ({ fill: "tozeroy", fillcolor: `${shade}b0`,
    fillpattern: pattern ? { shape: pattern, bgcolor: `${shade}b0`, fgcolor: "#ffffff", fgopacity: 0.5, size: 8, solidity: 0.2 } : undefined });
  const legend = (entries) => element("ul", { class: "legend" },
    ...entries.map(([name, shape]) => element("li", {}, swatch(shape), told(name, 60))));

  // The theme: as the system has it, until the reader says otherwise.
  const darkly = window.matchMedia("(prefers-color-scheme: dark)");
  let printing = false;
  const dark = () => {
    const said = document.documentElement.dataset.theme;
    return !printing && (said ? said === "dark" : darkly.matches);
  };
  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const themed = [];
  const onTheme = (redraw) => themed.push(redraw);
  const retheme = () => themed.forEach((redraw) => redraw());

  // Plotly: unpacked after the first paint, once.
  let plotlyLoads = null;
  const whole = new Promise((ready) => {
    if (document.readyState !== "loading") ready();
    else document.addEventListener("DOMContentLoaded", ready);
  });
  function plotly() {
    plotlyLoads = plotlyLoads || (async () => {
      await whole;
      const source = await inflated(document.getElementById("hetsim-plotly").textContent.trim());
      document.head.append(element("script", { text: source }));
      if (!window.Plotly) throw new Error("plotly did not start");
      return window.Plotly;
    })();
    return plotlyLoads;
  }

  function merged(base, more) {
    const made = { ...base };
    for (const [key, value] of Object.entries(more || {})) {
      const both = value && typeof value === "object" && !Array.isArray(value)
        && made[key] && typeof made[key] === "object";
      made[key] = both ? merged(made[key], value) : value;
    }
    return made;
  }
  function dressed(layout) {
    const ink = colour("ink"), soft = colour("soft"), line = colour("line");
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, tickcolor: line,
      automargin: true, title: { font: { color: soft, size: 14 } }, tickfont: { color: ink } };
    const axes = {};
    for (const key of new Set(["xaxis", "yaxis", ...Object.keys(layout)])) {
      if (/^[xy]axis\d*$/.test(key)) axes[key] = axis;
    }
    return merged({
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
      font: { color: ink, size: 14, family: getComputedStyle(document.body).fontFamily },
      margin: { l: 8, r: 16, t: 16, b: 8 }, colorway: COLOURS, showlegend: false,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      hoverlabel: { bgcolor: colour("card"), bordercolor: line, font: { color: ink } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: soft, activecolor: colour("strong") },
      ...axes,
    }, layout);
  }
  const CONFIG = { displaylogo: false, responsive: true, displayModeBar: "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };

  // Draw `make()` -> {traces, layout} into a box, and again where the theme changes. Names in
  // traces go through `label`: plotly takes some markup.
  const label = (text, most = 60) =>
    told(text, most).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  async function plot(box, make, { alt, height = 360, then } = {}) {
    box.style.minHeight = `${height}px`;
    box.append(element("p", { class: "waits", text: "The picture is being made." }));
    let library;
    try {
      library = await plotly();
    } catch (error) {
      box.replaceChildren(element("p", { class: "note",
        text: "This browser does not draw the picture; the table says the same." }));
      return null;
    }
    const inner = element("div", { style: `height:${height}px` });
    box.replaceChildren(inner);
    const redraw = () => {
      const { traces, layout } = make();
      return library.react(inner, traces, dressed({ ...layout, height }), CONFIG);
    };
    await redraw();
    if (alt) { inner.setAttribute("role", "figure"); inner.setAttribute("aria-label", told(alt)); }
    onTheme(redraw);
    if (then) then(inner, library, redraw);
    return inner;
  }

  // Views.
  const view = (one) => views.push(one);
  const shown = [];
  let underWay = 0;
  const settled = () => underWay === 0;
  function drawn(panel) {
    if (panel.ready) return panel.ready;
    underWay += 1;
    panel.ready = (async () => {
      if (!panel.view) return;
      const picture = element("div", { class: "picture" });
      const caption = panel.section.querySelector(".caption") || panel.section.querySelector("h2");
      caption.after(picture);
      try {
        await panel.view.draw(picture, island);
      } catch (error) {
        picture.replaceChildren(element("p", { class: "note",
          text: "This picture could not be drawn here; the tables hold its figures." }));
        console.error(error);
      }
      if (panel.view.table) {
        const found = await panel.view.table(island);
        const tables = Array.isArray(found) ? found : [found];
        picture.after(...tables.map((one) => table({ title: panel.title, ...one })));
      }
      if (printing) panel.section.querySelectorAll("details").forEach((one) => { one.open = true; });
    })().finally(() => { underWay -= 1; });
    return panel.ready;
  }
  function choose(panel, { focus = false, remember = true } = {}) {
    for (const one of shown) {
      const chosen = one === panel;
      one.section.classList.toggle("chosen", chosen);
      one.tab.setAttribute("aria-selected", String(chosen));
      one.tab.tabIndex = chosen ? 0 : -1;
    }
    if (focus) panel.tab.focus();
    const { tab } = panel, bar = tab.parentElement;
    if (bar.scrollWidth > bar.clientWidth) {
      bar.scrollLeft = tab.offsetLeft - (bar.clientWidth - tab.offsetWidth) / 2;
    }
    if (remember) try { history.replaceState(null, "", `#${panel.id}`); } catch (error) { /* file: */ }
    const ready = drawn(panel);
    window.dispatchEvent(new Event("resize"));
    return ready;
  }
  function byKey(event) {
    const place = shown.findIndex((one) => one.tab === event.target);
    const to = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: shown.length - 1 }[event.key];
    if (place < 0 || to === undefined) return;
    event.preventDefault();
    choose(shown[(to + shown.length) % shown.length], { focus: true });
  }
  function panels() {
    const found = new Map();
    for (const section of document.querySelectorAll(".view")) {
      found.set(section.dataset.view, { id: section.dataset.view, section,
        title: section.dataset.title, order: Number(section.dataset.order) });
    }
    const box = document.getElementById("views");
    for (const one of views) {
      if (!one.shows(island)) continue;
      if (!found.has(one.id)) {
        const section = element("section", { class: "view", id: `view-${one.id}` },
          element("h2", { text: one.title }));
        if (one.caption) section.append(element("p", { class: "caption", text: one.caption }));
        found.set(one.id, { id: one.id, section, title: one.title, order: one.order ?? 50 });
      }
      found.get(one.id).view = one;
    }
    shown.push(...[...found.values()].sort((a, b) => a.order - b.order));
    box.append(...shown.map((one) => one.section));
    return box;
  }
  function tabs(box) {
    const bar = element("div", { class: "tabs", role: "tablist", "aria-label": "Views", onkeydown: byKey });
    for (const one of shown) {
      one.tab = element("button", { role: "tab", type: "button", id: `tab-${one.id}`,
        "aria-controls": one.section.id, text: one.title, onclick: () => choose(one) });
      one.section.setAttribute("role", "tabpanel");
      one.section.setAttribute("aria-labelledby", one.tab.id);
      one.section.tabIndex = -1;
      bar.append(one.tab);
    }
    box.before(bar);
  }

  // Printing: every view, every table open, in the light, as wide as a sheet. All that pictures
  // wait for is there by then, so they are drawn before the browser looks.
  const SHEET = 720;
  let atHand = false;
  const printable = () => atHand;
  let opened = [], themeWas;
  function beforePrint() {
    if (printing) return;
    printing = true;
    themeWas = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    document.documentElement.classList.add("printed");
    document.body.style.width = `${SHEET}px`;
    shown.forEach(drawn);
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((one) => { one.open = true; });
    retheme();
    window.dispatchEvent(new Event("resize"));
  }
  function afterPrint() {
    if (!printing) return;
    printing = false;
    if (themeWas) document.documentElement.dataset.theme = themeWas;
    else delete document.documentElement.dataset.theme;
    document.documentElement.classList.remove("printed");
    document.body.style.width = "";
    opened.forEach((one) => { one.open = false; });
    retheme();
    window.dispatchEvent(new Event("resize"));
  }
  async function allDrawn() {
    await Promise.all(shown.map(drawn));
  }

  function button(text, press, about = {}) {
    return element("button", { type: "button", onclick: press, ...about, text });
  }
  function copyButton(text, name = "Copy") {
    const made = button(name, async () => {
      const said = typeof text === "function" ? text() : text;
      try {
        await navigator.clipboard.writeText(said);
      } catch (error) {
        const field = element("textarea", { class: "hidden" });
        field.value = said;
        document.body.append(field);
        field.select();
        document.execCommand("copy");
        field.remove();
      }
      made.textContent = "Copied";
      say("Copied");
      setTimeout(() => { made.textContent = name; }, 1500);
    });
    return made;
  }
  function buttons() {
    const theme = button("", () => {
      document.documentElement.dataset.theme = dark() ? "light" : "dark";
      named();
      retheme();
    });
    const named = () => { theme.textContent = dark() ? "Light" : "Dark"; };
    named();
    darkly.addEventListener("change", () => { named(); retheme(); });
    const print = button("Print", async () => { await allDrawn(); window.print(); });
    document.getElementById("buttons").append(theme, print);
    const command = document.getElementById("command");
    // What scrolls is reached by keys, too.
    if (command.scrollHeight > command.clientHeight) command.tabIndex = 0;
    command.after(copyButton(island.command));
  }

  function start() {
    document.documentElement.classList.add("js");
    buttons();
    tabs(panels());
    const wanted = shown.find((one) => `#${one.id}` === location.hash) || shown[0];
    if (wanted) choose(wanted, { remember: false });
    window.addEventListener("beforeprint", beforePrint);
    window.addEventListener("afterprint", afterPrint);
    window.matchMedia("print").addEventListener("change", (event) =>
      (event.matches ? beforePrint() : afterPrint()));
    window.addEventListener("hashchange", () => {
      const said = shown.find((one) => `#${one.id}` === location.hash);
      if (said) choose(said, { remember: false });
    });
    // Pictures that no one has looked at yet are there when the page is printed.
    const idly = window.requestIdleCallback || ((work) => setTimeout(work, 300));
    idly(async () => {
      await Promise.allSettled([plotly(), unpackAll(island.pictures)]);
      atHand = true;
    });
  }

  return { island, view, start, unpacked, inflated, plain, told, cut, fixed, seconds, bytes, ratio,
    percent, element, table, say, look, deviceLook, devices, hatch, swatch, filled, legend, colour, dark,
    onTheme, plot, label, button, copyButton, allDrawn, settled, printable, COLOURS, PATTERNS };
})();
