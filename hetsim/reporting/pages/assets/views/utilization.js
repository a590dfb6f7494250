// Utilization over time: of each device, the share of its streams that compute; of each link, the
// share of the time that it carries something.
"use strict";
(() => {
  const BINS = 160, ROWS_MOST = 12;

  // By device and link: {name, kind, device, share: [of each bin], whole}.
  async function shares(picture) {
    const { tasks, ofTrack: rows, end } = await hetsim.timelineOpened(picture);
    const size = end / BINS, found = new Map();
    for (const row of rows) {
      const { kind, device, name } = row.track, key = kind === "device" ? device : name;
      if (!found.has(key)) found.set(key, { name: key, kind, device, streams: 0, busy: new Float64Array(BINS) });
      const one = found.get(key);
      one.streams += 1;
      for (const mark of row.marks) {
        if (tasks.request[mark] < 0) continue;
        const start = tasks.start_ns[mark], stop = start + tasks.duration_ns[mark];
        for (let bin = Math.min(BINS - 1, Math.floor(start / size)); bin < BINS && bin * size < stop; bin += 1) {
          one.busy[bin] += Math.max(0, Math.min(stop, (bin + 1) * size) - Math.max(start, bin * size));
        }
      }
    }
    const declared = Object.fromEntries(picture.devices.map((name, place) => [name, picture.streams[place]]));
    return [...found.values()].map((one) => {
      const streams = one.kind === "device" ? Math.max(one.streams, declared[one.device] || 1) : 1;
      const share = Array.from(one.busy, (busy) => Math.min(1, busy / size / streams));
      return { ...one, share, whole: share.reduce((sum, part) => sum + part, 0) / BINS };
    });
  }

  function draw(box, island) {
    return hetsim.ofPlans(box, "utilization-plan", island.pictures.timelines, async (one, picture, note) => {
      const all = await shares(one), rows = all.filter((row) => row.whole > 0);
      const idle = all.filter((row) => row.whole === 0).map((row) => hetsim.told(row.name, 40));
      note.textContent = idle.length ? `Idle all along: ${idle.join(", ")}.` : "";
      const { end } = await hetsim.timelineOpened(one);
      const unit = hetsim.units.nanoseconds(end);
      const edges = Array.from({ length: BINS + 1 }, (_, bin) => bin * end / BINS / unit[0]);
      const named = (row) => `${hetsim.label(row.name, 24)}  ${hetsim.percent(row.whole)}`;
      const alt = `Share of the time by device and link, of ${one.name}: `
        + rows.map((row) => `${row.name} ${hetsim.percent(row.whole)}`).join(", ");
      const many = rows.length > ROWS_MOST;
      const make = () => (many ? heat(rows, edges, unit, named) : areas(rows, edges, unit, named));
      return hetsim.plot(picture, make, { alt, height: many ? 110 + 22 * rows.length : 90 + 70 * rows.length });
    });
  }

  function areas(rows, edges, unit, named) {
    const layout = { margin: { t: 26, l: 52 }, hovermode: "x unified", annotations: [],
      grid: { rows: rows.length, columns: 1, ygap: 0.42 },
      xaxis: { range: [0, edges.at(-1)], zeroline: false, anchor: `y${rows.length > 1 ? rows.length : ""}`,
        title: { text: `time, ${unit[1]}` } } };
    const traces = rows.map((row, place) => {
      const suffix = place ? String(place + 1) : "";
      const look = row.kind === "device" ? hetsim.deviceLook(row.device) : { colour: hetsim.colour("soft"), pattern: "" };
      layout[`yaxis${suffix}`] = { range: [0, 1.02], tickvals: [0, 1], ticktext: ["0", "100 %"], fixedrange: true,
        zeroline: false };
      layout.annotations.push({ xref: "paper", x: 0, xanchor: "left", yref: `y${suffix} domain`, y: 1, yanchor: "bottom",
        text: named(row), showarrow: false, font: { size: 13 } });
      return { type: "scatter", mode: "lines", x: edges, y: [...row.share, row.share.at(-1)], yaxis: `y${suffix}`,
        line: { shape: "hv", width: 1.2, color: look.colour }, ...hetsim.filled(look),
        name: hetsim.label(row.name, 40), hovertemplate: "%{y:.0%}" };
    });
    return { traces, layout };
  }

  function heat(rows, edges, unit, named) {
    const ordered = rows.slice().reverse();
    const middle = edges.slice(0, -1).map((edge, bin) => (edge + edges[bin + 1]) / 2);
    return {
      traces: [{ type: "heatmap", x: middle, y: ordered.map((_, place) => place), z: ordered.map((row) => row.share),
        zmin: 0, zmax: 1, colorscale: "Cividis", customdata: ordered.map((row) => middle.map(() => hetsim.label(row.name, 40))),
        hovertemplate: "%{customdata}<br>%{x:.3g}: %{z:.0%}<extra></extra>",
        colorbar: { tickformat: ".0%", thickness: 12, outlinewidth: 0 } }],
      layout: { xaxis: { title: { text: `time, ${unit[1]}` }, showgrid: false },
        yaxis: { tickvals: ordered.map((_, place) => place), ticktext: ordered.map(named), showgrid: false, fixedrange: true } },
    };
  }

  hetsim.view({
    id: "utilization",
    title: "Utilization",
    order: 40,
    // Of requests under load the view of use has it: a row there is an instance, not a device.
    shows: (island) => (island.pictures.timelines || []).some((one) => one.of !== "requests"),
    draw,
  });
})();
