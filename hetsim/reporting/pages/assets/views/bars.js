// Bars side by side, the first on top: placements, findings, units.
"use strict";
(() => {
  const { label, colour } = hetsim;

  // What figures are divided by, and what the axis says behind its name.
  const scales = {
    seconds: (most) => { const [step, unit] = hetsim.units.seconds(most); return [step, `, ${unit}`]; },
    share: () => [0.01, ", %"],
    count: () => [1, ""],
  };

  function draw(id) {
    return (box, island) => {
      const { rows, axis, unit, line, line_text: lineText } = island.pictures.bars[id];
      const shown = rows.slice().reverse();
      const most = Math.max(...rows.map((row) => row.value), line || 0);
      const [step, word] = scales[unit](most);
      const narrow = box.clientWidth < 520;
      const make = () => {
        const layout = { margin: { t: line === null ? 16 : 34 }, bargap: 0.35, shapes: [], annotations: [],
          xaxis: { rangemode: "tozero", range: [0, (most / step) * 1.05 || 1], title: { text: `${axis}${word}` } },
          yaxis: { tickvals: shown.map((_, place) => place),
            ticktext: shown.map((row) => label(row.name, narrow ? 18 : 44)), zeroline: false, showgrid: false } };
        if (line !== null) {
          layout.shapes.push({ type: "line", xref: "x", yref: "paper", x0: line / step, x1: line / step, y0: 0, y1: 1,
            line: { color: colour("bad"), width: 2, dash: "dash" } });
          layout.annotations.push({ x: line / step, y: 1, yref: "paper", yanchor: "bottom", showarrow: false,
            xanchor: line > most / 2 ? "right" : "left", text: label(lineText, 60), font: { color: colour("bad"), size: 13 } });
        }
        const looks = shown.map((row) => (row.device ? hetsim.deviceLook(row.device).colour
          : row.strong ? "#009E73" : "#0072B2"));
        const trace = { type: "bar", orientation: "h", y: shown.map((_, place) => place),
          x: shown.map((row) => row.value / step), text: shown.map((row) => label(row.text)),
          textposition: shown.map((row) => (row.value > most / 2 ? "inside" : "outside")), insidetextanchor: "end",
          cliponaxis: false, textfont: { size: 13 }, outsidetextfont: { color: colour("ink"), size: 13 },
          marker: { color: looks, line: { color: colour("ink"), width: 0.5 } },
          customdata: shown.map((row) => label(row.more || row.name, 160)), hovertemplate: "%{customdata}<br>%{text}<extra></extra>" };
        return { traces: [trace], layout };
      };
      const told = rows.map((row) => `${row.name} ${row.text}`).join(", ");
      return hetsim.plot(box, make, { alt: `${axis}: ${told}`, height: Math.max(160, 96 + 34 * rows.length) });
    };
  }

  for (const [id, title] of [["placed", "The best"], ["findings", "Findings"], ["units", "Units"]]) {
    hetsim.view({ id, title, shows: (island) => Boolean(island.pictures.bars && island.pictures.bars[id]), draw: draw(id) });
  }
})();
