// The page around its pictures: data, theme, tabs, printing, and what plotly draws.
"use strict";
const hetsim = (() => {
  const island = JSON.parse(document.getElementById("hetsim-data").textContent);
  const views = {}; // pictures that need more than a figure, by the section's view: async (box)

  // What pages/packing.py packed; anything else is given back as it is.
  async function inflated(packed) {
    const binary = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
    const stream = new Blob([binary]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }
  function summed(steps) {
    let sum = 0;
    return steps.map((step) => (sum += step));
  }
  const unpackings = new WeakMap();
  async function afresh(value) {
    const found = JSON.parse(await inflated(value.packed));
    for (const name of value.differences) found[name] = summed(found[name]);
    return found;
  }
  function unpacked(value) {
    if (!value || typeof value.packed !== "string") return Promise.resolve(value);
    if (!unpackings.has(value)) unpackings.set(value, afresh(value));
    return unpackings.get(value);
  }
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
  // Browsers would break a command line behind the dashes of its options.
  function words(box, text) {
    box.replaceChildren(...text.split(" ").flatMap((word, place) =>
      [place ? " " : "", element("span", { class: "word", text: word })]));
  }
  const PREFIXES = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "\u00b5"], [1e-9, "n"]];
  const figure = (value, unit) => {
    const [step, prefix] = value === 0 ? [1, ""]
      : PREFIXES.find(([least]) => Math.abs(value) >= least) || PREFIXES.at(-1);
    return `${Number((value / step).toPrecision(4))} ${prefix}${unit}`;
  };
  const say = (text) => { document.getElementById("live").textContent = text; };
  const button = (text, press) => element("button", { type: "button", onclick: press, text });
  function copyButton(text) {
    const made = button("Copy", async () => {
      try {
        await navigator.clipboard.writeText(text());
      } catch (error) {
        const field = element("textarea", { class: "hidden" });
        field.value = text();
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
  // A labelled choice of one of some names: `pick` gets its place.
  let choices = 0;
  function choice(what, names, pick, chosen = 0) {
    const id = `choice-${choices += 1}`;
    const made = element("select", { id, onchange: () => pick(made.selectedIndex) },
      ...names.map((text, place) => element("option", { text, selected: place === chosen })));
    return element("span", { class: "choice" }, element("label", { for: id, text: what }), made);
  }

  // The theme is the system's until the reader chooses.
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const dark = () => {
    const { theme } = document.documentElement.dataset;
    return theme ? theme === "dark" : system.matches;
  };
  const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const redraws = new Map(); // by box: what is drawn anew into it replaces what was there
  const retheme = () => redraws.forEach((redraw) => redraw());

  // Plotly: unpacked after the first paint, once.
  let library = null;
  const whole = new Promise((ready) => {
    if (document.readyState !== "loading") ready();
    else document.addEventListener("DOMContentLoaded", ready);
  });
  function plotly() {
    library = library || (async () => {
      await whole;
      const source = await inflated(document.getElementById("hetsim-plotly").textContent.trim());
      document.head.append(element("script", { text: source }));
      return window.Plotly;
    })();
    return library;
  }

  // A figure with the theme's colours in the place of their names, such as "--ink".
  function coloured(value) {
    if (typeof value === "string") return value.startsWith("--") ? colour(value) : value;
    if (!value || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(coloured);
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, coloured(one)]));
  }
  function merged(base, more) {
    const made = { ...base };
    for (const [key, value] of Object.entries(more)) {
      const both = value && typeof value === "object" && !Array.isArray(value) && made[key];
      made[key] = both ? merged(made[key], value) : value;
    }
    return made;
  }
  const AXIS = { gridcolor: "--line", zerolinecolor: "--line", linecolor: "--line", tickcolor: "--line",
    automargin: true, title: { font: { color: "--soft", size: 14 } }, tickfont: { color: "--ink" } };
  const LAYOUT = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true, showlegend: false,
    font: { color: "--ink", size: 14 }, margin: { l: 8, r: 16, t: 16, b: 8 },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    hoverlabel: { bgcolor: "--card", bordercolor: "--line", font: { color: "--ink" } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: "--soft", activecolor: "--strong" },
  };
  const CONFIG = { displaylogo: false, responsive: true, displayModeBar: "hover",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"] };
  const NARROW = 520, SHORT = 16, LINE = 20;
  function lines(text) {
    return text.split(" ").reduce((made, word) => {
      const last = made.at(-1);
      return last && last.length + word.length < LINE
        ? [...made.slice(0, -1), `${last} ${word}`] : [...made, word];
    }, []).join("<br>");
  }
  // A narrow picture has short names, titles in lines, and no texts beside its marks.
  function narrowed({ data, layout }) {
    for (const [key, axis] of Object.entries(layout)) {
      if (/^xaxis/.test(key) && axis.title.text) axis.title.text = lines(axis.title.text);
      if (/^yaxis/.test(key) && axis.ticktext) {
        axis.ticktext = axis.ticktext.map((text) =>
          (text.length > SHORT && !text.includes("&") ? `${text.slice(0, SHORT - 3)}...` : text));
      }
    }
    for (const trace of data) if (trace.mode === "markers+text") trace.mode = "markers";
    for (const note of layout.annotations || []) note.font = { ...note.font, size: 10 };
    return { data, layout };
  }
  function dressed({ data, layout, height }, width) {
    const axes = { xaxis: AXIS, yaxis: AXIS };
    for (const key of Object.keys(layout)) if (/^[xy]axis/.test(key)) axes[key] = AXIS;
    const family = getComputedStyle(document.body).fontFamily;
    const made = coloured({ data,
      layout: merged(merged({ ...LAYOUT, ...axes }, layout), { height, font: { family } }) });
    return width < NARROW ? narrowed(made) : made;
  }
  // Draw `make()`, a figure of pages/figures.py, into a box, and again where the theme changes.
  async function plot(box, make) {
    const { alt, height } = make();
    box.style.minHeight = `${height}px`;
    box.replaceChildren(element("p", { class: "waits", text: "The picture is being made." }));
    const drawing = await plotly();
    const inner = element("div", { style: `height:${height}px`, role: "figure", "aria-label": alt });
    box.replaceChildren(inner);
    inner.redraw = () => {
      const figure = make();
      inner.style.height = box.style.minHeight = `${figure.height}px`;
      const { data, layout } = dressed(figure, box.clientWidth);
      return drawing.react(inner, data, layout, CONFIG);
    };
    redraws.set(box, inner.redraw);
    await inner.redraw();
    return inner;
  }
  // One of several pictures at a time, chosen by its name: `show(picture, box)`.
  async function oneOf(box, what, pictures, show) {
    const inner = element("div");
    if (pictures.length > 1) {
      const tools = choice(what, pictures.map((one) => one.name), (place) => show(pictures[place], inner));
      box.append(element("div", { class: "tools" }, tools));
    }
    box.append(inner);
    return show(pictures[0], inner);
  }
  async function figures(box, view) {
    const found = await Promise.all(island.pictures[view].map(unpacked));
    const note = element("p", { class: "caption" });
    return oneOf(box, "plan", found, async (one, inner) => {
      await plot(inner, () => one);
      note.textContent = one.note;
      inner.after(note);
    });
  }

  // Tabs: a picture is drawn when its section is first shown.
  const panels = [];
  let underWay = 0;
  function drawn(panel) {
    const view = panel.section.dataset.view;
    const made = island.pictures[view];
    const draw = made && (views[view] || (Array.isArray(made) && made.length && figures));
    panel.ready = panel.ready || (async () => {
      if (!draw) return;
      underWay += 1;
      const picture = element("div", { class: "picture" });
      panel.section.querySelector(".caption").after(picture);
      try {
        await draw(picture, view);
      } catch (error) {
        picture.replaceChildren(element("p", { class: "note",
          text: "The browser could not show this picture; the tables hold its figures." }));
        console.error(error);
      } finally {
        underWay -= 1;
      }
    })();
    return panel.ready;
  }
  function choose(panel, focus = false, remember = true) {
    for (const one of panels) {
      one.section.classList.toggle("chosen", one === panel);
      one.tab.setAttribute("aria-selected", String(one === panel));
      one.tab.tabIndex = one === panel ? 0 : -1;
    }
    if (focus) panel.tab.focus();
    const { tab } = panel, bar = tab.parentElement;
    bar.scrollLeft = tab.offsetLeft - (bar.clientWidth - tab.offsetWidth) / 2;
    if (remember) try { history.replaceState(null, "", `#${panel.id}`); } catch (error) { /* file: */ }
    drawn(panel);
    window.dispatchEvent(new Event("resize"));
  }
  function byKey(event) {
    const place = panels.findIndex((one) => one.tab === event.target), count = panels.length;
    const to = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: count - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(panels[(to + count) % count], true);
  }
  const linked = () => panels.find((one) => `#${one.id}` === location.hash);
  function tabs() {
    const bar = element("div", { class: "tabs", role: "tablist", "aria-label": "Views", onkeydown: byKey });
    for (const section of document.querySelectorAll(".view")) {
      const id = section.dataset.view, panel = { id, section };
      panel.tab = element("button", { role: "tab", type: "button", id: `tab-${id}`, text: section.dataset.title,
        "aria-controls": section.id, onclick: () => choose(panel) });
      section.setAttribute("role", "tabpanel");
      section.setAttribute("aria-labelledby", panel.tab.id);
      section.tabIndex = -1;
      bar.append(panel.tab);
      panels.push(panel);
    }
    document.getElementById("views").before(bar);
    if (panels.length) choose(linked() || panels[0], false, false);
    window.addEventListener("hashchange", () => { if (linked()) choose(linked(), false, false); });
  }

  // Printing: every view, every table open, in the light, as wide as a sheet. What pictures wait
  // for is there by then: browsers wait for nothing once they print.
  const SHEET = 720;
  let atHand = false, printing = null;
  function beforePrint() {
    if (printing) return;
    const root = document.documentElement;
    printing = { theme: root.dataset.theme, folded: [...document.querySelectorAll("details:not([open])")] };
    root.dataset.theme = "light";
    root.classList.add("printed");
    document.body.style.width = `${SHEET}px`;
    panels.forEach(drawn);
    printing.folded.forEach((one) => { one.open = true; });
    retheme();
    window.dispatchEvent(new Event("resize"));
  }
  function afterPrint() {
    if (!printing) return;
    const root = document.documentElement, { theme, folded } = printing;
    printing = null;
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    root.classList.remove("printed");
    document.body.style.width = "";
    folded.forEach((one) => { one.open = false; });
    retheme();
    window.dispatchEvent(new Event("resize"));
  }

  function start() {
    document.documentElement.classList.add("js");
    const named = () => { theme.textContent = dark() ? "Light" : "Dark"; };
    const theme = button("", () => {
      document.documentElement.dataset.theme = dark() ? "light" : "dark";
      named();
      retheme();
    });
    named();
    system.addEventListener("change", () => { named(); retheme(); });
    const print = button("Print", async () => { await Promise.all(panels.map(drawn)); window.print(); });
    document.getElementById("buttons").append(theme, print);
    const command = document.getElementById("command");
    words(command, command.textContent);
    command.after(copyButton(() => island.command));
    tabs();
    window.addEventListener("beforeprint", beforePrint);
    window.addEventListener("afterprint", afterPrint);
    window.matchMedia("print").addEventListener("change", (event) => (event.matches ? beforePrint() : afterPrint()));
    const idly = window.requestIdleCallback || ((work) => setTimeout(work, 300));
    idly(async () => {
      await Promise.allSettled([plotly(), unpackAll(island.pictures)]);
      atHand = true;
    });
  }

  return { island, views, unpacked, element, figure, words, say, button, copyButton, choice, plot, plotly, oneOf, dark,
    start, settled: () => underWay === 0, printable: () => atHand };
})();
