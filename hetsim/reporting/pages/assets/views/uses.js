// How much each device, link and instance was used, and how many requests waited over time.
"use strict";
(() => {
  // A service is the record itself, or what a report's best answer has of it.
  const serviceOf = ({ kind, record }) => {
    if (kind === "simulate") return record.models && record.devices ? record : null;
    if (kind === "run") return record.measured || null;
    if (kind === "place") return record.service;
    if (kind === "capacity") return record.rows[0].at;
    if (kind === "recommend") return record.answer && record.answer.service;
    return null;
  };

  hetsim.view({
    id: "uses",
    title: "Use",
    order: 40,
    shows: (island) => Boolean(serviceOf(island)),
    draw(box, island) {
      const { label, percent } = hetsim;
      const service = serviceOf(island);
      const bars = [];
      for (const [name, one] of Object.entries(service.devices)) bars.push(["device", name, one]);
      for (const [name, one] of Object.entries(service.links)) bars.push(["link", name, one]);
      for (const model of service.models) {
        model.instances.forEach((one, k) => {
          if (one.utilization !== null) bars.push(["instance", `${k} of ${model.model}`, one]);
        });
      }
      bars.reverse();
      const looks = { device: ["#0072B2", ""], link: ["#E69F00", "/"], instance: ["#009E73", "x"] };
      const make = () => ({
        traces: [{
          type: "bar", orientation: "h", y: bars.map((_, k) => k), x: bars.map(([, , one]) => 100 * one.utilization),
          marker: { color: bars.map(([sort]) => looks[sort][0]), pattern: { shape: bars.map(([sort]) => looks[sort][1]),
            fgcolor: "#ffffff", solidity: 0.25 } },
          error_x: { type: "data", symmetric: false, color: hetsim.colour("ink"),
            array: bars.map(([, , one]) => { const i = one.utilization_interval;
              return i && i.enough && i.high !== null ? 100 * (i.high - one.utilization) : 0; }),
            arrayminus: bars.map(([, , one]) => { const i = one.utilization_interval;
              return i && i.enough && i.low !== null ? 100 * (one.utilization - i.low) : 0; }) },
          hovertemplate: bars.map(([sort, name, one]) => `${sort} ${label(name)}: ${percent(one.utilization)}<extra></extra>`),
        }],
        layout: {
          xaxis: { title: { text: "of the time, %" }, range: [0, 105] },
          yaxis: { tickvals: bars.map((_, k) => k), ticktext: bars.map(([sort, name, one]) =>
            `${label(`${sort} ${name}`, box.clientWidth < 520 ? 16 : 40)}  ${percent(one.utilization)} `) } },
      });
      const told = bars.map(([sort, name, one]) => `${sort} ${name} ${percent(one.utilization)}`).reverse().join(", ");
      return hetsim.plot(box, make, { alt: `Use: ${told}`, height: Math.max(200, 90 + 32 * bars.length) });
    },
  });

  hetsim.view({
    id: "queues",
    title: "Queues",
    order: 45,
    shows: (island) => {
      const service = serviceOf(island);
      return Boolean(service && service.models.some((model) => model.queue.inside.length));
    },
    draw(box, island) {
      const { label, COLOURS } = hetsim;
      const models = serviceOf(island).models.filter((model) => model.queue.inside.length);
      const make = () => {
        const traces = [];
        models.forEach((model, at) => {
          const { queue } = model;
          const x = queue.inside.map((_, k) => (k + 0.5) * queue.window_s);
          const hue = COLOURS[at % COLOURS.length];
          traces.push({ type: "scatter", mode: "lines", name: label(`${model.model}: waiting or served`, 50),
            x, y: queue.inside, line: { color: hue, width: 2 } });
          traces.push({ type: "scatter", mode: "lines", name: label(`${model.model}: waiting`, 50),
            x, y: queue.waiting, line: { color: hue, width: 2, dash: "dot" } });
        });
        return { traces, layout: { showlegend: true, margin: { t: 40 }, xaxis: { title: { text: "virtual time, s" } },
          yaxis: { title: { text: "requests" }, rangemode: "tozero" } } };
      };
      return hetsim.plot(box, make, { alt: "Requests that wait, over time; the table has its figures", height: 360 });
    },
  });
})();
