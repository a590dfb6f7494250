// Latency over rate with its band, the limit and the bottleneck; sliders play the requests again.
"use strict";
(() => {
  const { answers } = hetsim;
  const WORDS = { meets: "Met", misses: "Missed", undecided: "Undecided" };
  const rateText = (value) => `${Number(value.toPrecision(4))}/s`;

  const percentile = (one) =>
    one.latency_s === Infinity ? "beyond what was answered"
    : !one.enough || one.high_s === Infinity
      ? `${hetsim.seconds(one.latency_s)} (too few for an interval)`
    : `${hetsim.seconds(one.latency_s)} (${hetsim.seconds(one.low_s)} to ${hetsim.seconds(one.high_s)})`;

  // What is asked of a row of sliders, as the command line says it.
  const commandOf = (row, asked) => {
    const found = [...row.command];
    if (row.from_file) {
      if (asked.factor !== 1) found.push("--faster", String(asked.factor));
    } else {
      found.push("--rate", String(asked.rate), "--requests", String(row.requests));
      for (const slo of asked.slos[0]) found.push("--slo", `p${slo.percentile}=${slo.ms}ms`);
    }
    if (asked.usd !== undefined) found.push("--price", `platform=${plainNumber(asked.usd)}/h`);
    if (asked.speed !== 1) found.push("--what-if", `device ${asked.device}.speed x${asked.speed}`);
    return found;
  };
  const plainNumber = (value) => {
    const text = String(value);
    return text.includes("e") ? value.toFixed(12).replace(/0+$/, "") : text;
  };

  // What bounds say of a setting, whatever is played: words, or nothing.
  const bounded = (row, asked) => {
    const found = [];
    const rate = row.from_file ? asked.factor * row.rate_per_s : asked.rate;
    if (row.ceiling_per_s !== null && rate >= row.ceiling_per_s) {
      found.push(
        `From ${rateText(row.ceiling_per_s)} on more comes than ${row.ceiling_binds} can do, ` +
          "however long it goes on: in the long run nothing is on time.",
      );
    }
    asked.slos.forEach((slos, at) => {
      for (const slo of slos) {
        if (slo.latency_s < row.quickest_s[at]) {
          found.push(
            `No rate meets ${hetsim.seconds(slo.latency_s)}: a request alone takes ` +
              `${hetsim.seconds(row.quickest_s[at])} at least.`,
          );
        }
      }
    });
    return found;
  };

  // All that a page says of a setting: {answered, lines, command, service}.
  answers.said = (row, asked) => {
    const command = commandOf(row, asked);
    const lines = bounded(row, asked);
    if (asked.speed !== 1) {
      const bound = hetsim.island.record.bound_per_s;
      if (bound) {
        lines.push(
          `With ${asked.device} ${asked.speed} times as fast no plan carries ` +
            `${rateText(bound * Math.max(asked.speed, 1))} or more.`,
        );
      }
      lines.unshift("New plans are made for it: only the command below says what they do.");
      return { answered: false, lines, command };
    }
    const service = row.load && answers.served(row.load, {
      ...(row.from_file ? { factor: asked.factor } : { rate: asked.rate }),
      slos: asked.slos,
      hourly_usd: asked.usd,
    });
    if (!service) {
      const why = row.why_not ? ` (${row.why_not})` : "";
      lines.unshift(`It takes the full clock${why}: the command below says it.`);
      return { answered: false, lines, command };
    }
    return { answered: true, lines, command, service };
  };

  // The exit code of `hetsim capacity --target-rate`: 0 met, 4 infeasible, 5 missed, 6 undecided.
  answers.capacityAt = (record, rate) => {
    const at = (row) => {
      if (row.answer === "misses" && row.proved) return "misses";
      for (const one of row.rates) {
        if (one.low_per_s <= rate && (one.high_per_s === null || rate <= one.high_per_s)) return "meets";
      }
      if (row.ceiling_per_s !== null && rate >= row.ceiling_per_s && row.how === "verdicts") return "misses";
      const last = row.rates[row.rates.length - 1];
      if (last && row.one_span && last.misses_above_per_s !== null && rate >= last.misses_above_per_s) {
        return "misses";
      }
      return "undecided";
    };
    const rows = record.rows.filter((row) => row.refused === null);
    const met = rows.find((row) => row.answer === "meets" && at(row) === "meets");
    if (met) return { code: 0, answer: "meets", by: met.name };
    if (record.impossible !== null) return { code: 4, answer: "misses" };
    if (record.bound_per_s !== null && rate > record.bound_per_s) return { code: 4, answer: "misses" };
    if (rows.length && rows.every((row) => at(row) === "misses")) return { code: 5, answer: "misses" };
    return { code: 6, answer: "undecided" };
  };

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
    const limit = `p${one.percentile} within ${hetsim.seconds(one.latency_s)}`;
    if (service.state === "overloaded") return `${WORDS[worst]}: ${limit}; more comes than is carried.`;
    return `${WORDS[worst]}: ${limit}${known ? `; it is ${percentile(known)}` : ""}.`;
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
      const controls = element("div", { class: "sliders" });
      const say = element("p", { class: "said", "aria-live": "polite" });
      const figures = element("div", { class: "scroll" });
      const more = element("ul", { class: "bounds" });
      const command = answers.command();
      const capacity = element("p", { class: "caption" });
      const target = answers.command();
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
        target.hidden = true;
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
      const build = () => {
        asked = startOf(row);
        const parts = [];
        if (rows.length > 1) {
          const choice = element("select", {}, ...rows.map((one, k) =>
            element("option", { value: String(k), selected: one === row, text: hetsim.told(one.name, 80) })));
          choice.addEventListener("change", () => { row = rows[Number(choice.value)]; build(); answer(); });
          parts.push(answers.field("deployment", choice));
        }
        const top = row.ceiling_per_s || (row.from_file ? row.rate_per_s : asked.rate) * 4;
        if (row.from_file) {
          parts.push(answers.slider({ name: "rate", unit: "times what the file says",
            low: 0.02, high: Math.max((1.3 * top) / row.rate_per_s, 2), value: asked.factor,
            moved: (value) => { asked.factor = value; soon(); } }));
        } else {
          parts.push(answers.slider({ name: "rate", unit: "requests a second",
            low: Math.min(top / 50, asked.rate), high: Math.max(1.3 * top, asked.rate), value: asked.rate,
            moved: (value) => { asked.rate = value; soon(); } }));
          asked.slos.forEach((slos) => slos.forEach((slo) => {
            parts.push(answers.slider({ name: `p${slo.percentile} within`, unit: "ms",
              low: slo.ms / 20, high: slo.ms * 20, value: slo.ms,
              moved: (value) => { slo.ms = value; slo.latency_s = Number(`${value}e-3`); soon(); } }));
          }));
        }
        if (island.kind === "simulate" && row.load) {
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
        const back = hetsim.button("As it was", () => { build(); answer(); });
        controls.replaceChildren(...parts, element("div", { class: "slider" }, back));
      };
      build();
      box.append(
        element("div", { class: "asking" }, controls,
          element("div", { class: "answer" }, say, figures, more,
            element("p", { class: "caption", text: "The command line says the same:" }), command, capacity, target)),
        picture);
      answer();
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
            traces.push({ type: "scatter", mode: "markers", name: "the sliders", x: [marker.rate], y: [here.latency_s / step],
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
