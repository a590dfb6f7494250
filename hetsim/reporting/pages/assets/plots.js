// Pictures by plotly, in the page's own colours.
"use strict";
(() => {
  const { inflated, element, told, colour, onTheme, COLOURS } = hetsim;

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

  // Ticks of a logarithmic axis: 1, 2 and 5 of each power of ten.
  function ticks(low, high) {
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const each of [1, 2, 5]) found.push(Number(`${each}e${power}`));
    }
    const kept = found.filter((one) => one >= low / 1.5 && one <= high * 1.5);
    return { tickvals: kept, ticktext: kept.map(String) };
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
  // Titles of axes in lines that a narrow picture has room for.
  const NARROW = 520, LINE = 20;
  function narrowed(layout, width) {
    for (const [key, axis] of Object.entries(layout)) {
      if (width >= NARROW || !/^xaxis\d*$/.test(key) || !axis.title) continue;
      const lines = axis.title.text.split(" ").reduce((made, word) => {
        const last = made.at(-1);
        if (last && last.length + word.length < LINE) made[made.length - 1] = `${last} ${word}`;
        else made.push(word);
        return made;
      }, []);
      axis.title = { ...axis.title, text: lines.join("<br>") };
    }
    return layout;
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
      console.error(error);
      return null;
    }
    const inner = element("div", { style: `height:${height}px` });
    box.replaceChildren(inner);
    const redraw = () => {
      const { traces, layout } = make();
      return library.react(inner, traces, dressed(narrowed({ ...layout, height }, box.clientWidth)), CONFIG);
    };
    await redraw();
    if (alt) { inner.setAttribute("role", "figure"); inner.setAttribute("aria-label", told(alt)); }
    onTheme(box, redraw);
    if (then) then(inner, library, redraw);
    return inner;
  }

  Object.assign(hetsim, { plotly, plot, label, ticks });
})();
