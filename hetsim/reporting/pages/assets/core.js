// What all views stand on: the island, words for figures, elements, tables, looks, theme.
"use strict";
const hetsim = (() => {
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
  // The largest of the steps that fits into a value, or the smallest: [step, unit].
  const SECONDS = [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]];
  const NANOSECONDS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
  const BYTES = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
  const unitOf = (steps) => (most) => steps.find(([step]) => most >= step) || steps.at(-1);
  const units = { seconds: unitOf(SECONDS), nanoseconds: unitOf(NANOSECONDS), bytes: unitOf(BYTES) };
  const stepped = (steps, last) => (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "-";
    for (const [step, unit] of steps) {
      if (Math.abs(value) >= step) return `${three(value / step)} ${unit}`;
    }
    return last(value);
  };
  const seconds = stepped(SECONDS,
    (value) => (value === 0 ? "0 s" : `${three(value / 1e-9)} ns`));
  const bytes = stepped(BYTES.slice(0, -1), (value) => `${fixed(value, 0)} B`);
  const ratio = (value) => (value === null || value === undefined ? "-" : `${three(value)}x`);
  function percent(share, sign = false) {
    if (share === null || share === undefined) return "-";
    let value = 100 * share;
    if (Math.abs(value) < 0.05) value = 0;
    const text = fixed(value, Math.abs(value) >= 9.95 || value === 0 ? 0 : 1);
    return `${sign && value >= 0 ? "+" : ""}${text} %`;
  }

  const count = (number, one, more = `${one}s`) => `${number} ${number === 1 ? one : more}`;

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
  // A command line whose words stay whole: browsers would turn lines behind the dashes of options.
  function words(box, text) {
    box.replaceChildren(...text.split(" ").flatMap((word, place) =>
      [place ? " " : "", element("span", { class: "word", text: word })]));
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

  // What fills a canvas as a device looks: its colour, or a tile of its pattern, made once.
  const tiles = new Map();
  function hatch(context, { colour, pattern }) {
    if (!pattern) return colour;
    const key = colour + pattern;
    if (!tiles.has(key)) tiles.set(key, tileOf(colour, pattern));
    return context.createPattern(tiles.get(key), "repeat");
  }
  function tileOf(colour, pattern) {
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
    return tile;
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
  const dark = () => {
    const said = document.documentElement.dataset.theme;
    return said ? said === "dark" : darkly.matches;
  };
  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const themed = new Map(); // by box: what is drawn anew into it replaces what was there
  const onTheme = (box, redraw) => themed.set(box, redraw);
  const retheme = () => themed.forEach((redraw) => redraw());

  function button(text, press, about = {}) {
    return element("button", { type: "button", onclick: press, ...about, text });
  }
  function copyButton(text) {
    const made = button("Copy", async () => {
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
      setTimeout(() => { made.textContent = "Copy"; }, 1500);
    });
    return made;
  }

  return { island, unpacked, unpackAll, inflated, told, seconds, bytes, units, ratio, percent, count, element, table, say,
    look, deviceLook, devices, hatch, swatch, filled, legend, colour, dark, darkly, onTheme, retheme, button,
    copyButton, words, COLOURS };
})();
