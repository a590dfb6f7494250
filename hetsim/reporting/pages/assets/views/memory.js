// Memory over time: weights and activations of each device, and what it has.
"use strict";
(() => {
  const { label, bytes } = hetsim;
  const BESIDE = 3;

  function draw(box, island) {
    return hetsim.ofPlans(box, "memory-plan", island.pictures.memories, async (one, picture, note) => {
      const all = await hetsim.unpacked(one.devices);
      const rows = all.device.map((device, place) => ({
        device, capacity: all.capacity_bytes[place], weights: all.weight_bytes[place],
        at: all.time_ns[place], held: all.nbytes[place], peak: Math.max(...all.nbytes[place]),
      })).filter((row) => row.peak > 0);
      const idle = all.device.filter((device) => !rows.some((row) => row.device === device));
      note.textContent = [one.cut, idle.length ? `Nothing is held by ${idle.map((name) => hetsim.told(name, 40)).join(", ")}.` : ""]
        .filter(Boolean).join(" ");
      if (!rows.length) { picture.replaceChildren(); return null; }
      const end = Math.max(...rows.map((row) => row.at.at(-1)), 1);
      const unit = hetsim.units.nanoseconds(end);
      const alt = `Memory of ${one.name}, at most: ` + rows.map((row) => `${row.device} ${bytes(row.peak)}`).join(", ");
      return hetsim.plot(picture, () => stacked(rows, end, unit, picture.clientWidth < 480 ? 10 : 13), { alt, height: 80 + 116 * rows.length });
    });
  }

  function stacked(rows, end, unit, size) {
    const layout = { margin: { t: 26, l: 72 }, annotations: [], shapes: [], hovermode: "x unified",
      grid: { rows: rows.length, columns: 1, ygap: 0.36 },
      xaxis: { range: [0, end / unit[0]], zeroline: false, anchor: `y${rows.length > 1 ? rows.length : ""}`,
        title: { text: `time, ${unit[1]}` } } };
    const traces = [];
    rows.forEach((row, place) => {
      const suffix = place ? String(place + 1) : "";
      const step = hetsim.units.bytes(row.peak);
      const look = hetsim.deviceLook(row.device);
      const x = [...row.at, end].map((at) => at / unit[0]);
      const held = [...row.held, row.held.at(-1)].map((one) => one / step[0]);
      const near = row.capacity !== null && row.capacity <= BESIDE * row.peak;
      const top = (near ? Math.max(row.capacity, row.peak) : row.peak) / step[0];
      layout[`yaxis${suffix}`] = { range: [0, top * 1.08], nticks: 4, ticksuffix: ` ${step[1]}`, zeroline: false, fixedrange: true };
      const has = row.capacity === null ? "" : ` of ${bytes(row.capacity)}`;
      layout.annotations.push({ xref: "paper", x: 0, xanchor: "left", yref: `y${suffix} domain`, y: 1, yanchor: "bottom",
        text: `${label(row.device, 24)}  at most ${bytes(row.peak)}${has}, weights ${bytes(row.weights)}`, showarrow: false, font: { size } });
      if (near) {
        layout.shapes.push({ type: "line", xref: "paper", x0: 0, x1: 1, yref: `y${suffix}`, y0: row.capacity / step[0],
          y1: row.capacity / step[0], line: { color: hetsim.colour("bad"), width: 2, dash: "dash" } });
      }
      const common = { type: "scatter", mode: "lines", yaxis: `y${suffix}` };
      traces.push({ ...common, x, y: held, line: { shape: "hv", width: 1.4, color: look.colour },
        ...hetsim.filled(look),
        name: label(row.device, 40), customdata: row.held.concat(row.held.at(-1)).map(bytes), hovertemplate: "%{customdata}" });
      traces.push({ ...common, x: [0, end / unit[0]], y: [row.weights / step[0], row.weights / step[0]], hoverinfo: "skip",
        line: { width: 1.4, dash: "dot", color: hetsim.colour("ink") }, name: "weights" });
    });
    return { traces, layout };
  }

  hetsim.view({
    id: "memory",
    title: "Memory",
    order: 45,
    shows: (island) => Boolean(island.pictures.memories && island.pictures.memories.length),
    draw,
  });
})();
