// Latency over rate with its band, the limit and the bottleneck; sliders play the requests again.
"use strict";
(() => {
  const { answers } = hetsim;
  const SEARCHES = {
    recommend: "Whether another platform is cheaper then takes a new search:",
    place: "Whether another placement is better then takes a new search:",
  };
  const WORDS = { meets: "Met", misses: "Missed", undecided: "Undecided" };

  const tooFew = (one) => !one.enough || one.high_s === Infinity;
  const percentile = (one, few = "") =>
    one.latency_s === Infinity ? "beyond what was answered"
    : tooFew(one) ? `${hetsim.seconds(one.latency_s)}${few}`
    : `${hetsim.seconds(one.latency_s)} (${hetsim.seconds(one.low_s)} to ${hetsim.seconds(one.high_s)})`;

  const table = (rows) =>
    hetsim.element("table", { class: "figures" }, hetsim.element("tbody", {},
      ...rows.map(([name, value]) => hetsim.element("tr", {},
        hetsim.element("th", { scope: "row", text: hetsim.told(name) }),
        hetsim.element("td", { class: "figure", text: hetsim.told(value) })))));

  const figuresOf = (service, asked) => {
    const rows = [];
    const several = service.streams.length > 1;
    for (const stream of service.streams) {
      const of = several ? ` of ${stream.name}` : "";
      for (const one of stream.percentiles) rows.push([`p${one.percentile}${of}`, percentile(one)]);
      for (const one of stream.objectives) {
        rows.push([`within ${hetsim.seconds(one.latency_s)}${of}`, hetsim.percent(one.on_time)]);
      }
    }
    // Said once: beside each figure it would be most of the table.
    if (service.streams.some((stream) => stream.percentiles.some(tooFew))) {
      rows.push(["without an interval", "too few requests for one"]);
    }
    const used = service.uses.find(([name]) => name === service.bottleneck);
    rows.push(["it is", service.state]);
    rows.push(["used the most", `${service.bottleneck}, ${hetsim.percent(used ? used[1] : null)}`]);
    if (asked.usd !== undefined && service.usd_per_1000 !== undefined) {
      const usd = service.usd_per_1000;
      rows.push(["USD for 1000 on time", usd === null ? "-" : String(Number(usd.toPrecision(3)))]);
    }
    return rows;
  };

  const sentence = (service) => {
    const every = service.streams.flatMap((stream) => stream.objectives.map((one) => [stream, one]));
    if (!every.length) return `It is ${service.state}.`;
    const worst = ["misses", "undecided", "meets"].find((answer) =>
      every.some(([, one]) => one.verdict === answer));
    const [stream, one] = every.find(([, each]) => each.verdict === worst);
    const known = stream.percentiles.find((each) => each.percentile === one.percentile);
    const of = service.streams.length > 1 ? ` of ${stream.name}` : "";
    const limit = `p${one.percentile}${of} within ${hetsim.seconds(one.latency_s)}`;
    if (service.state === "overloaded") return `${WORDS[worst]}: ${limit}; more comes than is carried.`;
    return `${WORDS[worst]}: ${limit}${known ? `; it is ${percentile(known, " (too few for an interval)")}` : ""}.`;
  };

  hetsim.view({
    id: "load",
    title: "Latency over rate",
    order: 5,
    shows: (island) => (island.pictures.served ? island.pictures.served.rows : []).some((row) => row.curve || row.load),
    draw(box, island) {
      const rows = island.pictures.served.rows.filter((row) => row.curve || row.load);
      const { element } = hetsim;
      let row = rows[0];
      let asked = null;
      const say = element("p", { class: "said", "aria-live": "polite" });
      const figures = element("div", { class: "scroll" });
      const more = element("ul", { class: "bounds" });
      const command = answers.command();
      const capacity = element("p", { class: "caption" });
      const target = answers.command();
      const left = element("p", { class: "caption" });
      const leave = answers.command();
      const picture = element("div", { class: "picture" });
      const marker = { rate: null, stream: null };
      let redraw = () => {};

      const rateNow = () => (row.from_file ? asked.factor * row.rate_per_s : asked.rate);
      const answer = () => {
        const found = answers.said(row, asked);
        answers.last = found;
        command.say(found.command);
        more.replaceChildren(...found.lines.slice(found.answered ? 0 : 1).map((text) =>
          element("li", { text: hetsim.told(text) })));
        if (found.answered) {
          say.textContent = hetsim.told(sentence(found.service));
          figures.replaceChildren(table(figuresOf(found.service, asked)));
        } else {
          say.textContent = hetsim.told(found.lines[0]);
          figures.replaceChildren();
        }
        marker.rate = rateNow();
        marker.stream = found.answered ? found.service.streams : null;
        capacity.textContent = "";
        target.hidden = leave.hidden = true;
        const asWas = JSON.stringify(asked.slos) === JSON.stringify(startOf(row).slos);
        if (island.kind === "capacity" && asWas && asked.speed === 1) {
          const told = answers.capacityAt(island.record, rateNow());
          const by = told.by ? ` by ${told.by}` : "";
          capacity.textContent = hetsim.told(
            `In the long run, of all deployments: ${WORDS[told.answer].toLowerCase()}${by} ` +
              `(exit code ${told.code} of the command below).`);
          target.hidden = false;
          target.say([...row.capacity, "--target-rate", String(rateNow())]);
        }
        if (row.search) {
          capacity.textContent = SEARCHES[island.kind];
          target.hidden = false;
          target.say([...row.search, ...answers.supposed(row, asked)]);
          const others = asked.slos.flatMap((slos, at) => slos.filter((slo, k) =>
            slo.latency_s !== row.limits[at][k].latency_s).map((slo) => [row.load ? row.load.streams[at].name : "", slo]));
          const notes = others.map(([name, slo]) =>
            `For both commands, write p${slo.percentile}=${slo.ms}ms in the file${name ? ` for ${name}` : ""}.`);
          left.textContent = "The first command reads what this leaves:";
          leave.hidden = false;
          leave.say(row.leave);
          more.append(...notes.map((text) => element("li", { text: hetsim.told(text) })));
        }
        redraw();
      };
      const soon = answers.soon(answer);
      const startOf = (of) => ({
        rate: answers.short(of.start * of.rate_per_s, 12),
        factor: of.start,
        device: null,
        speed: 1,
        usd: undefined,
        slos: of.limits.map((slos) => slos.map((slo) => ({
          ...slo, ms: Number((slo.latency_s * 1e3).toPrecision(12)) }))),
      });
      const limits = (parts) => asked.slos.forEach((slos, at) => slos.forEach((slo) => {
        const of = asked.slos.length > 1 && row.load ? ` of ${hetsim.told(row.load.streams[at].name, 30)}` : "";
        parts.push(answers.slider({ name: `p${slo.percentile}${of} within`, unit: "ms",
          low: slo.ms / 20, high: slo.ms * 20, value: slo.ms,
          moved: (value) => { slo.ms = value; slo.latency_s = Number(`${value}e-3`); soon(); } }));
      }));
      const build = () => {
        asked = startOf(row);
        const parts = [];
        if (rows.length > 1) {
          const choice = element("select", {}, ...rows.map((one, k) =>
            element("option", { value: String(k), selected: one === row, text: hetsim.told(one.name, 80) })));
          choice.addEventListener("change", () => { row = rows[Number(choice.value)]; asking.again(); });
          parts.push(answers.field("deployment", choice));
        }
        const top = row.ceiling_per_s || (row.from_file ? row.rate_per_s : asked.rate) * 4;
        if (row.from_file) {
          parts.push(answers.slider({ name: "rate", unit: "times what the file says",
            low: 0.02, high: Math.max((1.3 * top) / row.rate_per_s, 2), value: asked.factor,
            moved: (value) => { asked.factor = value; soon(); } }));
          if (row.search) limits(parts);
        } else {
          parts.push(answers.slider({ name: "rate", unit: "requests a second",
            low: Math.min(top / 50, asked.rate), high: Math.max(1.3 * top, asked.rate), value: asked.rate,
            moved: (value) => { asked.rate = value; soon(); } }));
          limits(parts);
        }
        if (row.hourly_usd !== undefined && row.load) {
          const known = row.hourly_usd;
          asked.usd = known || undefined;
          parts.push(answers.slider({ name: "price of the platform", unit: "USD an hour",
            low: (known || 1) / 50, high: (known || 1) * 50, value: known || 1,
            moved: (value) => { asked.usd = value; soon(); } }));
        }
        if (row.devices && row.devices.length) {
          const choice = element("select", {}, ...row.devices.map((name) =>
            element("option", { value: name, text: hetsim.told(name, 60) })));
          asked.device = row.devices[0];
          choice.addEventListener("change", () => { asked.device = choice.value; soon(); });
          parts.push(answers.field("a device", choice));
          parts.push(answers.slider({ name: "its speed", unit: "times as fast", low: 0.125, high: 8, value: 1,
            moved: (value) => { asked.speed = value; soon(); } }));
        }
        return parts;
      };
      const asking = answers.asking(build, answer, say, figures, more,
        element("p", { class: "caption", text: "The command line says the same:" }), command, capacity, target, left, leave);
      box.append(asking, picture);
      asking.again();
      if (!rows.some((one) => one.curve)) return null;

      const make = () => {
        const { seconds, colour, label } = hetsim;
        const traces = [];
        const shapes = [];
        const notes = [];
        const { curve } = row;
        if (!curve) return { traces, layout: {} };
        const every = curve.streams.flatMap((one) => one.latency_s.filter((value) => value !== null));
        const limits = asked.slos.flat().map((slo) => slo.latency_s);
        const most = Math.max(...every, ...limits);
        const [step, unit] = hetsim.units.seconds(most);
        const x = curve.factor.map((factor) => factor * row.rate_per_s);
        curve.streams.forEach((one, at) => {
          const hue = hetsim.COLOURS[at % hetsim.COLOURS.length];
          const kept = x.map((_, k) => k).filter((k) => one.latency_s[k] !== null);
          const band = kept.filter((k) => one.enough[k] && one.high_s[k] !== null);
          traces.push({ type: "scatter", mode: "lines", hoverinfo: "skip", showlegend: false,
            x: [...band, ...band.slice().reverse()].map((k) => x[k]),
            y: [...band.map((k) => one.high_s[k] / step), ...band.slice().reverse().map((k) => one.low_s[k] / step)],
            fill: "toself", fillcolor: hue, opacity: 0.18, line: { width: 0 } });
          traces.push({ type: "scatter", mode: "lines+markers", name: label(`p${one.percentile} of ${one.name}`, 40),
            x: kept.map((k) => x[k]), y: kept.map((k) => one.latency_s[k] / step),
            line: { color: hue, width: 2 },
            marker: { size: 10, line: { color: hue, width: 2 },
              symbol: kept.map((k) => (one.verdict[k].includes("misses") ? "x" : "circle")),
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
        if (marker.stream) {
          marker.stream.forEach((one, at) => {
            const wanted = curve.streams[at].percentile;
            const here = one.percentiles.find((each) => each.percentile === wanted);
            if (!here || here.latency_s === Infinity) return;
            traces.push({ type: "scatter", mode: "markers", name: "the sliders", showlegend: !at, x: [marker.rate], y: [here.latency_s / step],
              marker: { size: 17, symbol: "diamond-open", color: colour("ink"), line: { width: 3 } },
              hovertemplate: `here: ${seconds(here.latency_s)}<extra></extra>` });
          });
        }
        return { traces, layout: { shapes, annotations: notes, margin: { t: 40 },
          showlegend: curve.streams.length > 1,
          xaxis: { title: { text: "requests a second" }, rangemode: "tozero" },
          yaxis: { type: "log", ...answers.ticks(Math.min(...every, ...limits) / step, most / step), title: { text: `latency, ${unit} (logarithmic)` } } } };
      };
      return hetsim.plot(picture, make, { alt: "Latency over the rate of requests; the table has its figures",
        height: 420, then: (inner, library, again) => { redraw = again; } });
    },
  });
})();
