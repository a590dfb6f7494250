// The timeline: of each row one filled path, as plotly takes tens of seconds for as many bars.
"use strict";
(() => {
  const { element, island } = hetsim;
  const HEIGHT = 0.78, NAMED = 120, PER_LETTER = 8, ALL = 0, PATH = 1;

  const time = (ns) => hetsim.figure(ns / 1e9, "s");

  // Marks by row, in the order of their starts, and by start over all rows.
  async function opened(picture) {
    const tasks = await hetsim.unpacked(picture.tasks);
    const rows = picture.tracks.map(() => []);
    const order = tasks.track.map((_, mark) => mark);
    order.sort((a, b) => tasks.start_ns[a] - tasks.start_ns[b] || tasks.track[a] - tasks.track[b]);
    for (const mark of order) rows[tasks.track[mark]].push(mark);
    return { ...tasks, rows, order, end: (mark) => tasks.start_ns[mark] + tasks.duration_ns[mark] };
  }

  function path(tasks, marks, base, { color, opacity }) {
    const x = [], y = [];
    for (const mark of marks) {
      const from = tasks.start_ns[mark] / 1e9, to = tasks.end(mark) / 1e9;
      x.push(from, from, to, to);
      y.push(base, base + HEIGHT, base + HEIGHT, base);
    }
    return { type: "scatter", mode: "lines", x, y, fill: "toself", fillcolor: color, opacity,
      hoverinfo: "skip", line: { width: 0.5, color: "--ink" } };
  }

  // The names of what is wide enough for one, between two times.
  function names(tasks, picture, bases, lit, [from, to], width) {
    const found = { x: [], y: [], text: [] };
    for (const mark of tasks.order) {
      const start = Math.max(tasks.start_ns[mark], from * 1e9), stop = Math.min(tasks.end(mark), to * 1e9);
      const letters = Math.floor(((stop - start) / 1e9 / (to - from)) * width / PER_LETTER);
      if (letters < 2 || !lit(mark) || found.x.length > NAMED) continue;
      const name = picture.texts[tasks.text[mark]][0].split(":")[0];
      found.x.push((start + stop) / 2e9);
      found.y.push(bases[tasks.track[mark]] + HEIGHT / 2);
      found.text.push(name.length <= letters ? name.replace(/[&<>]/g, "") : "");
    }
    return found;
  }

  hetsim.views.timeline = (box) => {
    const made = island.pictures.timeline;
    const frame = element("div"), detail = element("p", { class: "detail", "aria-live": "polite" });
    const note = element("p", { class: "caption" }), tools = element("div", { class: "tools" });
    box.append(tools, frame, detail, note);
    return hetsim.oneOf(tools, "plan", made, async (picture, inner) => {
      const tasks = await opened(picture), count = picture.tracks.length;
      const bases = picture.tracks.map((_, track) => count - 1 - track);
      const requests = [...new Set(tasks.request)].filter((one) => one >= 0).sort((a, b) => a - b);
      const several = requests.length > 1, pathed = tasks.critical.some(Boolean);
      let shown = ALL, at = -1;
      const lit = (mark) => shown === ALL || (shown === PATH ? tasks.critical[mark] > 0
        : tasks.request[mark] === requests[shown - 2]);
      const texts = { type: "scatter", mode: "text", hoverinfo: "skip", cliponaxis: true,
        textfont: { size: 12, color: "#10161c" } };
      const make = () => {
        const data = [];
        tasks.rows.forEach((marks, track) => {
          const color = picture.tracks[track].colour;
          const [on, off] = [marks.filter(lit), marks.filter((mark) => !lit(mark))];
          if (off.length) data.push(path(tasks, off, bases[track], { color, opacity: 0.25 }));
          if (on.length) data.push(path(tasks, on, bases[track], { color, opacity: 0.9 }));
        });
        return { data: [...data, texts], alt: picture.alt, height: 94 + 32 * count, layout: {
          hovermode: false, dragmode: "zoom",
          xaxis: { title: { text: "Time since the first request" }, tickformat: "~s", ticksuffix: "s", zeroline: false, range: [0, picture.end_s * 1.01] },
          yaxis: { fixedrange: true, zeroline: false, showgrid: false, range: [-0.1, count],
            tickvals: bases.map((base) => base + HEIGHT / 2), ticktext: picture.tracks.map((one) => one.label) } } };
      };
      const told = (mark) => {
        at = mark;
        detail.textContent = mark < 0 ? "Point at a task, or focus the picture and press the arrow keys, to read what it is."
          : `${picture.texts[tasks.text[mark]].join("")}: ${time(tasks.duration_ns[mark])}, from ${time(tasks.start_ns[mark])}`
            + (tasks.request[mark] >= 0 && several ? `, request ${tasks.request[mark] + 1}` : "")
            + (tasks.critical[mark] ? ", on the critical path" : "");
      };
      const chart = await hetsim.plot(frame, make);
      const library = await hetsim.plotly();
      const rename = () => {
        const { xaxis } = chart._fullLayout;
        Object.assign(texts, names(tasks, picture, bases, lit, xaxis.range, xaxis._length));
        const { x, y, text } = texts;
        return library.restyle(chart, { x: [x], y: [y], text: [text] }, [chart.data.length - 1]);
      };
      chart.on("plotly_relayout", rename);
      const pick = async (place) => {
        shown = place;
        await chart.redraw();
        await rename();
      };
      const under = (event) => {
        const { xaxis, yaxis } = chart._fullLayout, corner = chart.getBoundingClientRect();
        const when = xaxis.p2c(event.clientX - corner.left - xaxis._offset) * 1e9;
        const near = 3e9 * Math.abs(xaxis.p2c(1) - xaxis.p2c(0));
        const track = count - 1 - Math.floor(yaxis.p2c(event.clientY - corner.top - yaxis._offset));
        const marks = (tasks.rows[track] || []).filter((mark) =>
          tasks.start_ns[mark] <= when + near && tasks.end(mark) >= when - near);
        return marks.find(lit) ?? marks[0] ?? -1;
      };
      chart.addEventListener("pointermove", (event) => told(under(event)));
      chart.addEventListener("keydown", (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!by || event.target !== chart) return;
        event.preventDefault();
        const kept = tasks.order.filter(lit);
        told(kept[Math.min(Math.max(kept.indexOf(at) + by, 0), kept.length - 1)] ?? -1);
      });
      chart.tabIndex = 0;
      const options = ["all tasks", pathed ? "the critical path" : null,
        ...(several ? requests.map((one) => `request ${one + 1}`) : [])];
      const places = options.map((_, place) => place).filter((place) => options[place]);
      inner.replaceChildren(...(places.length > 1
        ? [hetsim.choice("show", places.map((place) => options[place]), (place) => pick(places[place]))] : []));
      told(-1);
      note.textContent = picture.note;
      return rename();
    });
  };
})();
